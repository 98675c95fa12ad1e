"""Tables: aligned text for terminals, and HTML for notebooks."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

_MOST_ROWS = 40
_GAP = "  "


class Row(Protocol):
    """A record that has a row in a table."""

    def cells(self) -> Mapping[str, str]:
        """Return the row, by the names of the columns."""
        ...


Item = TypeVar("Item", bound=Row)


class Table(tuple[Item, ...]):
    """Records that print as a table, and as a table of HTML in a notebook.

    In all else it is a tuple. The first 40 records are printed.
    """

    @overload
    def __getitem__(self, at: SupportsIndex) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> "Table[Item]": ...
    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return Table(found) if isinstance(at, slice) else found

    def __repr__(self) -> str:
        if not self:
            return super().__repr__()
        return "\n".join([text(self._rows()), *self._more()])

    def _repr_html_(self) -> str:
        return "\n".join([html(self._rows()), *(f"<p>{line}</p>" for line in self._more())])

    def _rows(self) -> list[Mapping[str, str]]:
        return [row.cells() for row in self[:_MOST_ROWS]]

    def _more(self) -> list[str]:
        return [f"and {len(self) - _MOST_ROWS} more"] * (len(self) > _MOST_ROWS)


def text(rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows as aligned text under the names of their columns, numbers on the right."""
    columns = _columns(rows)
    lines: list[str] = []
    for row in ({name: name for name in columns}, *rows):
        cells = (
            row[name].rjust(_width(name, column)) if _are_numbers(column)
            else row[name].ljust(_width(name, column))
            for name, column in columns.items()
        )  # fmt: skip
        lines.append(_GAP.join(cells).rstrip())
    return "\n".join(lines)


def html(rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows as a table of HTML, numbers on the right."""
    columns = _columns(rows)
    sides = {name: "right" if _are_numbers(column) else "left" for name, column in columns.items()}

    def line(tag: str, row: Mapping[str, str]) -> str:
        cells = (
            f'<{tag} style="text-align: {side}">{escape(row[name])}</{tag}>'
            for name, side in sides.items()
        )
        return f"<tr>{''.join(cells)}</tr>"

    head = line("th", {name: name for name in columns})
    body = "\n".join(line("td", row) for row in rows)
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _columns(rows: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _width(name: str, column: Sequence[str]) -> int:
    return max(map(len, [name, *column]))


def _are_numbers(column: Sequence[str]) -> bool:
    return all(cell[:1] in "0123456789+-<>" for cell in column)
