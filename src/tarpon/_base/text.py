"""Numbers and estimates in words, and words from outside as a terminal may print them."""

from dataclasses import dataclass

_SMALLEST, _LARGEST = 1e-300, 1e300  # beyond, doubles hold limits in the place of numbers


@dataclass(frozen=True)
class Estimate:
    """A number and the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def percent(self, digits: int = 0) -> str:
        """Return the same in per cent."""
        value, low, high = (f"{number:.{digits}%}" for number in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


def clean(words: object, most: int = 200) -> str:
    r"""Return words from outside as one line that does no more to a terminal than stand there.

    Control characters, line breaks and marks that reverse the direction of writing are shown
    escaped. The middle of a line that is too long is left out.

    Arguments:
        words: Names, paths or messages of other programs.
        most: The largest number of characters.

    Example:
        >>> clean("mass\n\x1b[2Jaccurate")
        'mass\\n\\x1b[2Jaccurate'
    """
    line = _shortened(str(words), most)
    if not line.isprintable():
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return _shortened(line, most)


def _shortened(line: str, most: int) -> str:
    n_last = most // 4
    return line if len(line) <= most else f"{line[: most - n_last - 1]}…{line[-n_last:]}"


def number(value: float, digits: int = 2) -> str:
    """Return a p-value or an e-value in digits, or its limit where doubles come to an end."""
    if value < _SMALLEST:
        return f"< {_SMALLEST:g}"
    return f"> {_LARGEST:g}" if value > _LARGEST else f"{value:.{digits}g}"


def in_digits(value: float) -> str:
    """Return a number, which may be a p-value, in three digits."""
    return number(value, 3) if value > 0 else f"{value:.3g}"


def stated(name: str, value: float, digits: int = 2) -> str:
    """Return `p = 0.012`, say, or `p < 1e-300`."""
    shown = number(value, digits)
    return f"{name} {shown}" if shown[0] in "<>" else f"{name} = {shown}"


def size(n_bytes: float) -> str:
    """Return a number of bytes as people say it."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def dropped(n_dropped: int) -> str:
    """Return how many simulations were left out, in brackets; nothing if none was."""
    return f" ({n_dropped} invalid one{'s' * (n_dropped > 1)} dropped)" if n_dropped else ""


def unsigned(bias: Estimate) -> Estimate:
    """Return the size of a bias, if its interval leaves no doubt about the sign."""
    ends = sorted((abs(bias.low), abs(bias.high)))
    return Estimate(abs(bias.value), *ends) if bias.low * bias.high > 0 else bias
