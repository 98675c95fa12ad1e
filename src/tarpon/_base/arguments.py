"""Checks of what users hand in, and the messages they read when one fails.

A message says what was wanted, what was given, and what to do about it. Those about the shapes
of simulations are in `simulations.shapes`.
"""

import inspect
import operator
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from numbers import Real
from pathlib import Path
from reprlib import Repr
from typing import Any, TypeVar

import numpy as np

from .arrays import unmasked
from .text import clean, size
from .types import RNG, ArrayLike, Floats

_T = TypeVar("_T")
_WORDS = Repr()
_WORDS.maxstring = _WORDS.maxother = _WORDS.maxlong = 60
_LARGEST = 2**63 - 1
_SPARE = 0.5  # the share of the machine's memory that one call may ask for
_UNKNOWN_MEMORY = 8 * 2**30


def shown(value: object) -> str:
    """Return what was given in a few words: an array by its shape, all else as it prints."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and hasattr(value, "ndim"):
        return f"an array of shape {tuple(shape)}"
    if isinstance(value, type):
        return f"the class `{value.__name__}`"
    return clean(_WORDS.repr(value))


def wrong(name: str, wanted: str, value: object, advice: str = "") -> str:
    """Return what was wanted of an argument, what was given, and what to do."""
    return f"`{name}` must be {wanted}, but got {shown(value)}.{advice and ' '}{advice}"


def seed(rng: RNG, name: str = "rng") -> int:
    """Return the integer from which everything random of one call follows.

    A generator gives up 64 of its bits, so a second call with it goes on differently.
    """
    if rng is None:
        return secrets.randbits(64)
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**64, dtype=np.uint64))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        wanted = "a non-negative integer, a `numpy.random.Generator` or None"
        raise TypeError(wrong(name, wanted, rng))
    if rng < 0:
        raise ValueError(f"`{name}` must not be negative, but got {shown(rng)}.")
    return int(rng)


def positive(name: str, value: int, least: int = 1) -> int:
    """Return a number of things of which there must be some."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = None
    if whole is None or isinstance(value, bool):
        raise TypeError(wrong(name, "a whole number", value))
    if whole < least:
        raise ValueError(wrong(name, f"at least {least}", whole))
    if whole > _LARGEST:
        raise ValueError(wrong(name, f"at most {_LARGEST}", whole))
    return whole


def real(name: str, value: float, wanted: str = "a number") -> float:
    """Return a number, which may be infinite or NaN."""
    if isinstance(value, Real) or getattr(value, "shape", None) == ():
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise TypeError(wrong(name, wanted, value))


def probability(name: str, value: float) -> float:
    """Return a number strictly between 0 and 1."""
    wanted = "a number between 0 and 1"
    if not 0 < (number := real(name, value, wanted)) < 1:
        raise ValueError(f"`{name}` must lie between 0 and 1, but got {shown(value)}.")
    return number


def above_zero(name: str, value: float) -> float:
    """Return a number that is larger than 0, which may be infinite."""
    if not (number := real(name, value, "a positive number")) > 0:
        raise ValueError(wrong(name, "positive", value))
    return number


def between(name: str, value: float, low: float, high: float) -> float:
    """Return a number from `low` to `high`, both included."""
    wanted = f"a number from {low:g} to {high:g}"
    if not low <= (number := real(name, value, wanted)) <= high:
        raise ValueError(wrong(name, wanted, value))
    return number


def flag(name: str, value: bool) -> bool:
    """Return whether something is to be done, as True or False say, or 1 and 0."""
    if not isinstance(value, bool | np.bool_ | int) or value not in (0, 1):
        raise TypeError(wrong(name, "True or False", value))
    return bool(value)


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """Return a word that is known."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(repr(word) for word in known)
        listed = f"one of {words}" if len(known) > 2 else words.replace(", ", " or ")
        raise ValueError(wrong(name, listed, value))
    return value


def instance(name: str, value: _T, kind: Any, wanted: str, advice: str = "") -> _T:
    """Return an object that must be of a type, or one of several, `wanted` in words."""
    if not isinstance(value, kind):
        raise TypeError(wrong(name, wanted, value, advice))
    return value


def function(name: str, value: _T, wanted: str, method: str = "__call__") -> _T:
    """Return an object that can be called, or that has a method of that name."""
    if isinstance(value, type):
        advice = f"Pass an object: `{value.__name__}(...)`."
        raise TypeError(wrong(name, wanted, value, advice))
    if not callable(getattr(value, method, None)):
        raise TypeError(wrong(name, wanted, value))
    return value


def name_of_rng(sampler: Callable[..., Any]) -> str:
    """Return the name of the parameter for a generator, "" if there is none."""
    try:
        parameters = inspect.signature(sampler).parameters
    except ValueError:  # compiled functions may have no signature
        return ""
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [name for name, p in parameters.items() if p.kind in places and p.default is p.empty]
    return "rng" if "rng" in parameters else "".join(needed[2:3])


def several(name: str, given: Iterable[_T], wanted: str) -> Iterable[_T]:
    """Return things of which there may be several, which text is not."""
    if isinstance(given, str | bytes | os.PathLike) or not _iterable(given):
        raise TypeError(wrong(name, wanted, given))
    return given


def _iterable(value: object) -> bool:
    """Return whether there is something to go over, unlike arrays without axes or sparse ones."""
    listed = getattr(value, "ndim", 1) != 0 and not hasattr(value, "nnz")
    return isinstance(value, Iterable) and listed


def words(name: str, given: Sequence[str], n: int, what: str, most: int = 200) -> tuple[str, ...]:
    """Return one name per thing, `what` in words, safe to print."""
    unordered = isinstance(given, str | bytes | set | frozenset | Mapping)
    if unordered or not _iterable(given):
        raise TypeError(wrong(name, f"a list of {n} name{'s' * (n != 1)}", given))
    kept = tuple(clean(word, most) for word in given)
    if len(kept) != n:
        raise ValueError(
            f"`{name}` must name {n} {what}{'s' * (n != 1)}, but got {len(kept)}: "
            f"{shown(list(kept))}."
        )
    return kept


def floats(name: str, value: ArrayLike, wanted: str = "a number or an array of numbers") -> Floats:
    """Return numbers in double precision, of any shape."""
    try:
        numbers = unmasked(value)
        if numbers.dtype.kind not in "biuf":
            raise TypeError
        return numbers.astype(float)
    except (TypeError, ValueError):
        raise TypeError(wrong(name, wanted, value)) from None


def per_parameter(name: str, numbers: Floats, n_dims: int) -> Floats:
    """Return numbers that must be one for all parameters, or one per parameter."""
    if numbers.shape not in ((), (1,), (n_dims,)):
        raise ValueError(
            f"`{name}` must be one number, or one per parameter, ({n_dims},), but got shape "
            f"{numbers.shape}."
        )
    return numbers


def path(value: str | Path, name: str = "path") -> Path:
    """Return the path of a file or folder."""
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise TypeError(wrong(name, "the path of a file, as text or a `Path`", value))
    return Path(value)


def new_file(value: str | Path, name: str = "path") -> Path:
    """Return the path of a file to be written, which may be there but is no folder."""
    found = path(value, name)
    if found.is_dir():
        wanted = "the path of a file, not of a folder"
        raise ValueError(wrong(name, wanted, str(found)))
    if not found.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(found.parent)!r} to write {found.name!r} into: make it "
            f"first."
        )
    return found


def new_page(value: str | Path, name: str = "path") -> Path:
    """Return the path of an HTML file to be written."""
    found = new_file(value, name)
    if not_a_page := why_no_page(found):
        raise ValueError(f"`{name}` {not_a_page}")
    return found


def why_no_page(path: Path) -> str:
    """Return what is wrong with the path of an HTML file, or nothing."""
    if path.suffix.lower() in (".html", ".htm"):
        return ""
    return (
        f"must end with .html or .htm, since reports are HTML files, but got {path.name!r}. "
        f"Write {path.stem + '.html'!r}; for a PDF, print it from a browser."
    )


def memory() -> int:
    """Return how many bytes of memory the machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # where there is no such thing
        return _UNKNOWN_MEMORY


def affordable(n_bytes: float, what: str, advice: str) -> None:
    """Raise before memory is asked for that the machine does not have.

    Arguments:
        n_bytes: How much it takes.
        what: What takes it, in words.
        advice: What to do.
    """
    most = _SPARE * memory()
    if n_bytes > most:
        raise ValueError(
            f"{what} would take about {size(n_bytes)} of memory, and {size(most)} may be used. "
            f"{advice}"
        )


def sizes(**counts: int) -> None:
    """Raise unless these are numbers of things whose product in doubles fits into memory."""
    total = prod(positive(name, n) for name, n in counts.items())
    named = " × ".join(f"`{name}`" for name in counts)
    given = " × ".join(shown(n) for n in counts.values())
    affordable(32 * total, f"{named} = {given}", "Ask for less.")
