"""Old and new lines beside each other."""

from __future__ import annotations

import pytest

from mdstorm_migrate import migrate
from mdstorm_migrate.base.edits import Edit, Lines
from mdstorm_migrate.report.side_by_side import DiffLine, Hunk, hunks


def edit(text: str, old: str, new: str, rule: str = "PM101") -> Edit:
    start = text.index(old) if old else 0
    return Edit(rule, "exact", start, start + len(old), new, "")


def plain(cell: DiffLine | None) -> str | None:
    return None if cell is None else "".join(piece for piece, _ in cell.pieces)


def marked(cell: DiffLine | None) -> list[str]:
    return [] if cell is None else [piece for piece, is_marked in cell.pieces if is_marked]


def rows(text: str, *edits: Edit) -> list[tuple[str | None, str | None]]:
    return [
        (plain(row.left), plain(row.right))
        for hunk in hunks(Lines(text), edits)
        for row in hunk.rows
    ]


def test_a_word_that_changes_is_marked_on_both_sides() -> None:
    text = "import petastorm.spark\n"
    ((row,),) = (hunk.rows for hunk in hunks(Lines(text), [edit(text, "petastorm", "mdstorm")]))
    assert (marked(row.left), marked(row.right)) == (["petastorm"], ["mdstorm"])
    assert (plain(row.left), plain(row.right)) == ("import petastorm.spark", "import mdstorm.spark")


def test_an_inserted_line_has_nothing_beside_it() -> None:
    text = "a\nb\n"
    assert rows(text, Edit("PM107", "manual", 2, 2, "# TODO\n", "")) == [
        ("a", "a"),
        (None, "# TODO"),
        ("b", "b"),
    ]


def test_a_removed_line_has_nothing_beside_it() -> None:
    text = "a\nb\nc"
    assert rows(text, edit(text, "b\n", "")) == [("a", "a"), ("b", None), ("c", "c")]


def test_lines_that_stay_within_an_edit_stand_beside_each_other() -> None:
    text = "from a import (\n    x,\n    y,\n)\n"
    new = "from b import (\n    x,\n)\nfrom c import (\n    y,\n)\n"
    found = rows(text, edit(text, text, new))
    assert found[1] == ("    x,", "    x,")
    assert found[-2:] == [("    y,", "    y,"), (")", ")")]


def test_two_edits_of_one_line_are_one_row() -> None:
    text = "petastorm.a(petastorm.b)\n"
    second = Edit("PM102", "exact", 12, 21, "mdstorm", "")
    assert rows(text, edit(text, "petastorm", "mdstorm"), second) == [
        ("petastorm.a(petastorm.b)", "mdstorm.a(mdstorm.b)")
    ]


def test_far_changes_are_hunks_of_their_own_with_three_lines_around_and_their_numbers() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 41))
    first = Edit("PM107", "manual", text.index("line 5\n"), text.index("line 5\n"), "# x\n", "")
    found = list(hunks(Lines(text), [first, edit(text, "line 30", "LINE 30", "PM102")]))
    assert [hunk.tags for hunk in found] == [{("manual", "PM107")}, {("exact", "PM102")}]
    numbers = [
        [(r.left and r.left.number, r.right and r.right.number) for r in h.rows] for h in found
    ]
    assert numbers[0] == [(2, 2), (3, 3), (4, 4), (None, 5), (5, 6), (6, 7), (7, 8)]
    assert numbers[1][0] == (27, 28)
    assert numbers[1][-1] == (33, 34)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_what_ends_a_line_is_not_shown(newline: str) -> None:
    text = newline.join(["a", "petastorm", "b"])
    assert rows(text, edit(text, "petastorm", "mdstorm")) == [
        ("a", "a"),
        ("petastorm", "mdstorm"),
        ("b", "b"),
    ]


def test_of_a_very_long_line_the_part_that_changes_is_shown() -> None:
    text = "x" * 5000 + "petastorm" + "y" * 5000
    ((row,),) = (hunk.rows for hunk in hunks(Lines(text), [edit(text, "petastorm", "mdstorm")]))
    assert marked(row.right) == ["md"]
    shown = plain(row.right) or ""
    assert "mdstorm" in shown.replace(" … ", "")
    assert len(shown) < 500


@pytest.mark.parametrize("todo", [True, False])
def test_both_sides_are_lines_of_the_two_texts(todo: bool) -> None:
    text = (
        "import petastorm.spark\n\nfrom petastorm.reader import Reader, Ventilator\n"
        "from petastorm.reader import (\n    NullCache,\n    Reader,\n)\n\n\n\n\n\n\n\n\n\n"
        "def f(df):\n    return petastorm.spark.make_spark_converter(df)"
    )
    result = migrate(text, todo=todo)
    found: list[Hunk] = list(hunks(Lines(result.source), result.edits))
    old, new = result.source.splitlines(), result.output.splitlines()
    seen_old, seen_new = set(), set()
    for hunk in found:
        for row in hunk.rows:
            if row.left is not None:
                assert plain(row.left) == old[row.left.number - 1]
                seen_old.add(row.left.number)
            if row.right is not None:
                assert plain(row.right) == new[row.right.number - 1]
                seen_new.add(row.right.number)
            if not row.changed:
                assert plain(row.left) == plain(row.right)
    hidden_old = [line for number, line in enumerate(old, 1) if number not in seen_old]
    hidden_new = [line for number, line in enumerate(new, 1) if number not in seen_new]
    assert hidden_old == hidden_new
