"""Run the code of pages, and compare its output with the output that they show.

    python docs/pages.py docs/start.md             # prints the differences
    python docs/pages.py --write docs/start.md     # writes the output into the page

Numbers must agree to within 5 per cent. Words must agree on the pages of `WORD_FOR_WORD` only, so
that a reworded message does not fail on every page that prints it; `--write` updates the words.

A page is run from top to bottom in a folder of its own.

- A fence `python` is run. A fence `text` shows everything printed since the previous `text`.
- A fence `console` has commands after `$` and their output, with `...` for omitted lines. Commands
  without output below them are run, too.
- A comment `<!-- run` contains Python that readers do not see, to write the files that a command
  needs; `PAGE` is the path of the page.
- A comment `<!-- needs: sbi -->` before a fence, or at the top for the whole page, names packages
  without which it is skipped; `<!-- not run: why -->` gives the reason to skip the next fence.
- A comment `<!-- file: train.py -->` before a fence `python` gives the name of the file to which
  the fence is written; it is not run.
- A figure saved as `images/NAME.png` is kept in `docs/images`.
"""

import argparse
import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PART = re.compile(
    r"^```(?P<kind>python|text|console)\n(?P<code>.*?)^```$"
    r"|^<!-- run\n(?P<hidden>.*?)^-->$"
    r"|^<!-- needs: (?P<needs>.*?) -->$"
    r"|^<!-- not run: (?P<why>.*?) -->$"
    r"|^<!-- file: (?P<file>.*?) -->$",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_VALUE = re.compile(rf"^\s*\.\.\.$|\bTrue\b|\bFalse\b|[-+]?{_NUMBER.pattern}", re.MULTILINE)
# Commands that are called here; others are for a shell, or start processes of their own.
_HERE = re.compile(r"\$ tarpon (?!run )[\w ./=,-]+")
_ROOT = Path(__file__).resolve().parents[1]
WORD_FOR_WORD = (_ROOT / "README.md", _ROOT / "docs/start.md", _ROOT / "docs/check.md")


@dataclass(frozen=True)
class Shown:
    """The output that a page shows at `span`, and the output that its code prints.

    Arguments:
        span: Start and end of the shown output in the text of the page.
        shown: The output that the page shows.
        printed: The output of the code.
        words: Whether words are compared, or only numbers.
    """

    span: tuple[int, int]
    shown: str
    printed: str
    words: bool

    @property
    def agrees(self) -> bool:
        """Whether the numbers are the same and, where words are compared, the words."""
        return self.same_words if self.words else self.same_numbers

    @property
    def same_words(self) -> bool:
        """Whether the words are the same, and the numbers to within 5 per cent.

        Sums round differently on other processors, which may change the last digit.
        """
        return _like(self.printed.rstrip().splitlines(), self.shown.rstrip().splitlines(), _same)

    @property
    def same_numbers(self) -> bool:
        """Whether the same numbers follow each other, to within 5 per cent."""
        return _like(_VALUE.findall(self.printed), _VALUE.findall(self.shown), _close)


@dataclass(frozen=True)
class Fence:
    """A fence of a page, with the settings of the comments above it.

    Arguments:
        kind: "python", also for code that readers do not see; "console" or "text".
        code: The contents.
        span: Start and end of the contents in the text of the page.
        file: Name of the file to write the contents to; empty if there is none.
        left_out: Whether the fence is skipped.
    """

    kind: str
    code: str
    span: tuple[int, int]
    file: str
    left_out: bool


def run(page: Path, printed_by: Callable[..., str] | None = None) -> Iterator[Shown]:
    """Run `page` in the current folder; yield every output that it shows.

    Arguments:
        page: The page.
        printed_by: Function that returns what one fence `python` after the other prints, given
            its code; None to run them here.

    Raises:
        AssertionError: If the page prints something and does not show it.
    """
    names, printed, words = {"__name__": "__main__", "PAGE": page}, "", page in WORD_FOR_WORD
    Path("images").mkdir(exist_ok=True)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")  # what an earlier page has left open
    for fence in _fences(page.read_text()):
        if fence.kind == "text":
            if not fence.left_out:
                yield Shown(fence.span, fence.code, printed, words)
            printed = ""
        elif fence.left_out:
            continue
        elif fence.kind == "console":
            yield Shown(fence.span, fence.code, _answers(fence.code), words)
        elif fence.file:
            Path(fence.file).write_text(fence.code)
        else:
            printed += (printed_by or _printed)(fence.code, page.name, names)
    assert not printed, f"{page.name} prints this and does not show it:\n{printed}"


def _fences(text: str) -> Iterator[Fence]:
    """Yield the fences of a page; a `text` is skipped along with the code that prints it."""
    all_left_out = left_out = False
    comments: list[re.Match[str]] = []
    for part in _PART.finditer(text):
        if part["code"] is None and part["hidden"] is None:
            comments.append(part)
            all_left_out |= part.start() == 0 and _lacks(part)
            continue
        kind, at = part["kind"] or "python", "hidden" if part["kind"] is None else "code"
        left_out = left_out and kind == "text"
        left_out |= any(comment["why"] or _lacks(comment) for comment in comments)
        file = "".join(comment["file"] or "" for comment in comments)
        yield Fence(kind, part[at], part.span(at), file, left_out or all_left_out)
        comments = []


def _lacks(comment: re.Match[str]) -> bool:
    """Return whether a comment names packages that are not installed."""
    needed = (comment["needs"] or "").split()
    return any(importlib.util.find_spec(name) is None for name in needed)


def needs(page: Path) -> set[str]:
    """Return the packages that parts of a page need, beyond those of tarpon."""
    return {
        name for part in _PART.finditer(page.read_text()) for name in (part["needs"] or "").split()
    }


def has_code(page: Path) -> bool:
    """Return whether a page has code to run."""
    return any(
        part["kind"] in ("python", "console") or part["hidden"]
        for part in _PART.finditer(page.read_text())
    )


def _printed(code: str, name: str, names: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, name, "exec"), names)
    return out.getvalue()


def _answers(code: str) -> str:
    """Run the commands after `$`; return them, with their output where the page shows it."""
    answers = []
    for block in re.split(r"^(?=\$ )", code, flags=re.MULTILINE)[1:]:
        command, _, shown = block.partition("\n")
        status, output = (_called if _HERE.fullmatch(command) else _spawned)(command[2:])
        assert status in (0, 1), f"{command}\n{output}"
        answers.append(f"{command}\n")
        if shown.strip():
            lines = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
            same = _like(lines.splitlines(), shown.splitlines(), _same)
            answers.append(shown if same else lines)
    return "".join(answers)


def _called(command: str) -> tuple[int, str]:
    """Call a command of tarpon in this process: another would first import all of it again."""
    from unittest import mock

    from tarpon.cli import main

    output = io.StringIO()
    with (
        mock.patch.dict(os.environ, _terminal(), clear=True),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        try:
            main(shlex.split(command)[1:], prog_name="tarpon")
        except SystemExit as end:
            return int(end.code or 0), output.getvalue()
    return 0, output.getvalue()


def _spawned(command: str) -> tuple[int, str]:
    """Run a command as a shell does."""
    done = subprocess.run(
        ["bash", "-c", command], stdout=-1, stderr=-2, text=True, check=False, env=_terminal()
    )
    return done.returncode, done.stdout


def _terminal() -> dict[str, str]:
    """Return the environment of a reader's terminal, 100 columns wide."""
    outside = {"CI", "BUILD_NUMBER", "PYTEST_ADDOPTS"}  # with these, pytest prints otherwise
    return {name: value for name, value in os.environ.items() if name not in outside} | {
        "COLUMNS": "100",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def _like(ours: list[str], theirs: list[str], same: Callable[[str, str], bool]) -> bool:
    """Whether lists of lines or values agree; `...` stands for any number of them."""
    if not theirs or not ours:
        return not ours and all(line.strip() in ("", "...") for line in theirs)
    if theirs[0].strip() == "...":
        return any(_like(ours[i:], theirs[1:], same) for i in range(len(ours) + 1))
    return same(ours[0], theirs[0]) and _like(ours[1:], theirs[1:], same)


def _same(ours: str, theirs: str) -> bool:
    if _NUMBER.sub("#", ours.rstrip()) != _NUMBER.sub("#", theirs.rstrip()):
        return False
    return all(map(_close, _NUMBER.findall(ours), _NUMBER.findall(theirs)))


def _close(ours: str, theirs: str) -> bool:
    if ours[-1].isdigit() and theirs[-1].isdigit():
        return abs(float(ours) - float(theirs)) <= 0.05 * abs(float(theirs))
    return ours == theirs


def _smaller(picture: str, target: str) -> None:
    """Copy a figure in 64 colours, which takes a third of the space."""
    from PIL import Image

    few = Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(target, optimize=True)


def main() -> None:
    """Run the pages of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write the output into the pages")
    args = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "agg")
    differ = 0
    for page in [page.resolve() for page in args.pages]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            shown = list(run(page))
            if args.write:
                shutil.copytree(
                    "images", page.parent / "images", dirs_exist_ok=True, copy_function=_smaller
                )
        wrong = [one for one in shown if not (one.same_words if args.write else one.agrees)]
        text = page.read_text()
        for one in reversed(wrong):
            print(f"{page.name} shows\n{one.shown}and prints\n{one.printed}")  # noqa: T201
            text = text[: one.span[0]] + one.printed + text[one.span[1] :]
        if args.write and wrong:
            page.write_text(text)
        differ += len(wrong)
    sys.exit(bool(differ and not args.write))


if __name__ == "__main__":
    main()
