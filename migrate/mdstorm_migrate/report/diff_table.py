"""A part of a diff as an HTML table."""

from __future__ import annotations

from mdstorm_migrate.report.page import tag, text
from mdstorm_migrate.report.side_by_side import Cell, Hunk, Row

__all__ = ["diff_table"]

_HEAD = "".join(
    f'<th scope="col"><span class="unseen">{name}</span></th>'
    for name in ("Old line", "Before", "New line", "After")
)
_COLUMNS = '<colgroup><col class="number"><col><col class="number"><col></colgroup>'


def diff_table(hunk: Hunk) -> str:
    """Return a table: old lines on the left, new ones on the right, changed words marked."""
    tags = " ".join(sorted(f"{cls}:{rule}" for cls, rule in hunk.tags))
    rows = "".join(map(_row, hunk.rows))
    return tag(
        "table",
        f"{_COLUMNS}<thead><tr>{_HEAD}</tr></thead><tbody>{rows}</tbody>",
        class_="diff hunk",
        data_tags=tags,
    )


def _row(row: Row) -> str:
    left = _cell(row.left, "left", "del" if row.changed else "")
    right = _cell(row.right, "right", "ins" if row.changed else "")
    return f'<tr class="changed">{left}{right}</tr>' if row.changed else f"<tr>{left}{right}</tr>"


def _cell(cell: Cell | None, side: str, mark: str) -> str:
    if cell is None:
        return f'<td class="number none"></td><td class="{side} none"></td>'
    pieces = "".join(
        tag(mark, text(piece)) if mark and marked else text(piece) for piece, marked in cell.pieces
    )
    sign, colour = {"del": ("&minus;", " old"), "ins": ("+", " new"), "": ("", "")}[mark]
    shown = f'<span class="sign">{sign}</span>{pieces}'
    return f'<td class="number{colour}">{cell.number}</td><td class="{side}{colour}">{shown}</td>'
