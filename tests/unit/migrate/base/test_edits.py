"""Edits to a file, and the comments and options that suppress them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.migrating import check_moves, check_noop, check_rewrite, each

from mdstorm_migrate.api import migrate
from mdstorm_migrate.base.edits import Edit, EditError, Lines, apply_edits, unified_diff


def edit(start: int, stop: int, replacement: str) -> Edit:
    return Edit("PM999", "exact", start, stop, replacement, "")


def test_edits_replace_spans_and_keep_order_of_insertions() -> None:
    edits = [edit(4, 6, "Y"), edit(0, 0, "a"), edit(0, 0, "b"), edit(0, 1, "X"), edit(6, 6, "!")]
    assert apply_edits("012345", edits) == "abX123Y!"


@each([edit(0, 3, ""), edit(2, 4, "")], [edit(0, 3, ""), edit(1, 1, "x")], [edit(5, 9, "")])
def test_overlapping_edits_and_edits_beyond_the_end_raise_error(edits: list[Edit]) -> None:
    with pytest.raises(EditError):
        apply_edits("012345", edits)


@given(st.text(alphabet="a\n\r\x0c\u2028 é"), st.data())
def test_line_numbers_match_python(text: str, data: st.DataObject) -> None:
    lines = Lines(text)
    offset = data.draw(st.integers(0, len(text)))
    line, column = lines.place(offset)
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    if offset and text[offset - 1 : offset + 1] == "\r\n":
        return  # an offset between \r and \n has no line and column
    assert line == before.count("\n") + 1
    assert column == len(before) - (before.rfind("\n") + 1) + 1


@each("# mdstorm: ignore", "# mdstorm:ignore[PM101]", "# noqa  # mdstorm: ignore[PM102, pm1]")
def test_ignore_comment_on_line_suppresses_edit(comment: str) -> None:
    check_noop(f"from petastorm import make_reader  {comment}\n")
    check_noop(f"from petastorm import (  {comment}\n    make_reader,\n    TransformSpec)\n")
    check_noop(f"from petastorm import (\n    make_reader,\n    TransformSpec)  {comment}\n")


@each("# mdstorm: ignore[PM102]", "# mdstorm: ignore-nothing", "# mdstorm: ignored", "# ignore")
def test_other_comments_do_not_suppress_edits(comment: str) -> None:
    check_moves(f"from petastorm import make_reader  {comment}\n")


def test_ignore_comment_affects_only_its_line() -> None:
    check_rewrite(
        "from petastorm import make_reader  # mdstorm: ignore\n"
        "from petastorm import NGram, reader\n"
        "x = '# mdstorm: ignore-file'\n",
        "from petastorm import make_reader  # mdstorm: ignore\nfrom petastorm import NGram\n"
        "from mdstorm import reader\nx = '# mdstorm: ignore-file'\n",
        todo=False,
        unsafe=True,
    )


def test_ignore_file_comment_suppresses_all_rules() -> None:
    check_noop("from petastorm.reader import Ventilator\n# mdstorm: ignore-file: generated\n")
    assert migrate("import petastorm\n# mdstorm: ignore-file").findings == ()


def test_rules_are_selected_by_code_prefix() -> None:
    text = 'from petastorm import make_reader\nlogging.getLogger("petastorm")\n'
    check_rewrite(text, text.replace("from petastorm", "from mdstorm"), select=["PM101"])
    check_rewrite(text, text.replace("from petastorm", "from mdstorm"), ignore=["PM103"])
    check_noop(text, select=["PM4"])
    check_rewrite(text, text.replace("petastorm", "mdstorm"), select=["PM1"], ignore=["PM107"])


def test_diff_marks_missing_newline_at_end() -> None:
    assert unified_diff("a\r\nb", "a\r\nc", "d/x.py") == (
        "--- a/d/x.py\n+++ b/d/x.py\n@@ -1,2 +1,2 @@\n a\r\n"
        "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )
    assert migrate("import os\n").diff() == ""


def test_result_has_edits_with_line_and_column() -> None:
    result = migrate("\nimport os; from petastorm import make_reader\n", path="a/b.py")
    (found,) = result.edits
    assert (found.rule, found.cls, found.line, found.column) == ("PM101", "exact", 2, 17)
    assert result.source[found.start : found.stop] == "petastorm"
    assert result.path == "a/b.py"
    assert result.changed


def test_text_without_petastorm_is_returned_unchanged() -> None:
    text = "# coding: latin-1\nNAME = 'B\xe4ume'\n"
    result = migrate(text)
    assert (result.source, result.output, result.changed) == (text, text, False)


def test_unknown_kind_of_file_raises_error() -> None:
    with pytest.raises(ValueError, match=r"x\.parquet is not a kind of file"):
        migrate("petastorm", path="x.parquet")
