"""Text without the prefixes of its lines, and edits of it in the file."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_migrate.base.edits import EditError
from mdstorm_migrate.sources.python import Uncommented

FILE = "x = 1\n# MAGIC a = 1\n# MAGIC b = 2\n# MAGIC c = 3\ny = 2\n"
PREFIX = re.compile("^# MAGIC ", re.MULTILINE)


def placed() -> Uncommented:
    return Uncommented(FILE, tuple(one.span() for one in PREFIX.finditer(FILE)), "# MAGIC ")


def edited(placement: Uncommented, start: int, stop: int, new: str) -> str:
    at, until = placement.span(start, stop)
    return placement.file[:at] + placement.spell(new, start, stop) + placement.file[until:]


def uncommented(text: str) -> str:
    return PREFIX.sub("", text)


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("a = 1", "a = 10", "# MAGIC a = 10\n# MAGIC b"),
        ("a = 1\n", "", "x = 1\n# MAGIC b"),
        ("a = 1\nb = 2\n", "d\ne\nf\n", "# MAGIC d\n# MAGIC e\n# MAGIC f\n# MAGIC c"),
        ("= 1\nb", "d\ne", "# MAGIC a d\n# MAGIC e = 2\n"),
        (" 2\n", " 1, 2\n", "# MAGIC b = 1, 2\n# MAGIC c"),
        ("2\nc = 3\n", "1\nd\n", "# MAGIC b = 1\n# MAGIC d\ny"),
        ("x = 1", "z", "z\n# MAGIC a"),
        ("y = 2", "z\nw", "# MAGIC c = 3\nz\nw\n"),
    ],
)
def test_an_edit_stays_in_the_comments(old: str, new: str, after: str) -> None:
    placement = placed()
    start = placement.text.index(old)
    assert after in edited(placement, start, start + len(old), new)


def test_lines_are_not_joined() -> None:
    placement = placed()
    with pytest.raises(EditError, match="joined"):
        placement.spell("z", placement.text.index("1\nb"), placement.text.index("b"))


@given(st.data())
def test_what_is_edited_is_what_would_be_edited_without_prefixes(data: st.DataObject) -> None:
    placement = placed()
    size = len(placement.text)
    first = placement.text.index("a")  # the whole edit lies among the lines with prefixes
    last = placement.text.index("y")
    start = data.draw(st.integers(first, last - 1))
    stop = data.draw(st.integers(start, last))
    new = data.draw(st.text("p\n", max_size=6))
    if stop == size or (start != stop and placement.text[stop - 1] == "\n" and new[-1:] != "\n"):
        return
    expected = placement.text[:start] + new + placement.text[stop:]
    assert uncommented(edited(placement, start, stop, new)) == expected
