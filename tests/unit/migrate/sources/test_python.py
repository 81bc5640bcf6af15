"""Edits in Python files, inline script metadata and commented code leave other bytes unchanged."""

import codecs
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.migrating import check_finding, check_noop, check_rewrite, each

from mdstorm_migrate.api import migrate
from mdstorm_migrate.base.edits import EditError
from mdstorm_migrate.run.outcome import Outcome, Settings
from mdstorm_migrate.run.together import migrate_alone
from mdstorm_migrate.sources.python import PythonSource, Uncommented


def migrated(data: bytes) -> Outcome:
    return migrate_alone(data, None, PythonSource(), Settings())


@each(
    b"\r\nfrom petastorm import make_reader\r\n\r\n\r\n# end",
    b"from petastorm import make_reader\rx = 1\r",
    b"x = 1\r\nfrom petastorm import make_reader\ny = 2\r",
    codecs.BOM_UTF8 + b"from petastorm import make_reader\n",
    codecs.BOM_UTF8 + b"# coding: utf-8\r\nfrom petastorm import make_reader\n",
    b"# -*- coding: latin-1 -*-\nx = '\xe9\xff'; from petastorm import make_reader\n",
    b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n# \x80\nimport petastorm.spark as s",
    b"\x0cfrom petastorm import make_reader\n\x0c\n\x0cdef f():\n\t\x0c\n\tpass\n",
    b"if x:\n\tfrom petastorm import make_reader\nelse:\n        pass\n",
    "é = '\u2028\x0b\x1c😀'; from petastorm import make_reader\n".encode(),
    b'"""a\x0cb\r\nc"""\r\nfrom petastorm import make_reader  # \tx  \r\n  \r\n',
    b"if 1:\n  pass\n# \\\nfrom petastorm import make_reader\n\\\n\nx\n",
)
def test_bytes_outside_edits_are_unchanged(data: bytes) -> None:
    assert migrated(data).after == data.replace(b"petastorm", b"mdstorm")


@each("\n", "\r\n", "\r")
def test_inserted_lines_have_line_endings_of_file(newline: str) -> None:
    lines = ["# latin-1 é", "if x:", "\tfrom petastorm.unischema import Unischema, _fullmatch", ""]
    text = newline.join(lines)
    after = migrated(text.encode()).after.decode()
    todo, old, new = after.split(newline)[2:5]
    assert todo.startswith("\t# TODO(mdstorm): PM107: ")
    assert old == "\tfrom petastorm.unischema import _fullmatch"
    assert new == "\tfrom mdstorm.unischema import Unischema"
    assert after.count(newline) == 5


def test_todo_comment_is_written_in_encoding_of_file() -> None:
    data = b"# coding: ascii\nfrom petastorm.reader import Ventilator\nDataLoader(x)\n"
    assert b"TODO(mdstorm)" in migrated(data).after


@each(
    (b"import petastorm\nx = = 1\n", "line 2: not Python 3"),
    (b"petastorm\xff\n", "not valid utf-8: byte 0xff"),
    (b"import petastorm\n\0\x01\x02", "a binary file"),
    (b"# coding: klingon\nimport petastorm\n", "unknown encoding: klingon"),
    (b"# coding: utf-16\nimport petastorm\n", "utf-16"),
    (b"import petastorm\nx = " + b"(" * 500 + b")" * 500, "too many nested parentheses"),
    (b"import petastorm\nx = " + b"-" * 100_000 + b"1", "nested too deeply"),
)
def test_unreadable_file_is_reported_and_unchanged(data: bytes, reason: str) -> None:
    outcome = migrated(data)
    assert outcome.after is outcome.before is data
    (problem,) = outcome.problems
    assert reason in str(problem)


def test_file_without_petastorm_is_not_decoded() -> None:
    data = b"\xff\0 = = mdstorm"
    assert migrated(data) == Outcome(data, data)


def test_migration_of_random_bytes_raises_no_error() -> None:
    generator = random.Random(3)
    text = b"import petastorm\nfrom petastorm.reader import (Reader,\n  Ventilator)\nx='\xc3\xa9'\n"
    for _ in range(300):
        data = bytearray(text)
        for _ in range(generator.randrange(1, 6)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        outcome = migrated(bytes(data))
        assert outcome.problems or outcome.after is not None


@each("# %%\n", "#%% load\r\n", "# %% [markdown]\n")
def test_percent_cells_may_contain_magics_and_prose(divider: str) -> None:
    cells = [
        b"%pip install petastorm==0.12.1\n!ls\n",
        b"import petastorm\n",
        b"Das ist Prosa.\n",
        b"petastorm.make_reader(url)\n",
    ]
    before = divider.encode().join([b"", *cells])
    result = migrated(before)
    assert not result.problems
    expected = before.replace(b"petastorm==0.12.1", b"mdstorm").replace(b"petastorm", b"mdstorm")
    assert result.after == expected
    broken = migrated(before + divider.encode() + b"petastorm.x(\n")
    assert [problem.cell for problem in broken.problems] == [6]
    assert b"import mdstorm as petastorm\n" in broken.after


CODE = "from petastorm import make_reader\n"
SCRIPT = """\
#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">={}"
#
# dependencies = [
#   "petastorm[torch]==0.12.1",
#   "{}",  # as petastorm has it
# ]
# ///
"""


def test_inline_script_dependencies_are_renamed_with_code() -> None:
    before = SCRIPT.format("3.10", "six") + CODE
    moved = before.replace("petastorm[torch]==0.12.1", "mdstorm[torch]")
    moved = moved.replace("from petastorm", "from mdstorm")
    check_rewrite(before, moved, "a.py")
    check_rewrite(before.replace("\n", "\r\n"), moved.replace("\n", "\r\n"), "a.py")


def test_inline_script_dependencies_keep_petastorm_if_needed() -> None:
    head = '# /// script\n# dependencies = ["petastorm"]\n# ///\n'
    text = f"{head}{CODE}from petastorm.reader import Ventilator\n"
    output = migrate(text, path="a.py", todo=False, unsafe=True).output
    assert '["mdstorm", "petastorm"]' in output
    check_noop(f"{head}from petastorm.reader import Ventilator\n", "a.py")


def test_todo_comment_in_inline_metadata_is_reported_once() -> None:
    text = f'# /// script\n# dependencies = [\n#   "petastorm @ https://x/y",\n# ]\n# ///\n{CODE}'
    check_finding(text, "PM402", "petastorm @ https://x/y", "a.py")
    output = migrate(text, path="a.py").output
    assert "\n#   # TODO(mdstorm): PM402" in output
    again = migrate(output, path="a.py")
    assert again.output == output
    assert [one.rule for one in again.findings] == ["PM402"]


@each(("other", "# ///\n"), ("script", ""))
def test_other_comments_are_not_inline_metadata(head: str, end: str) -> None:
    check_noop(f'# /// {head}\n# dependencies = ["petastorm"]\n{end}', "a.py")


FILE = "x = 1\n# MAGIC a = 1\n# MAGIC b = 2\n# MAGIC c = 3\ny = 2\n"
PREFIX = re.compile("^# MAGIC ", re.MULTILINE)


def placed() -> Uncommented:
    return Uncommented(FILE, tuple(one.span() for one in PREFIX.finditer(FILE)), "# MAGIC ")


def edited(placement: Uncommented, start: int, stop: int, new: str) -> str:
    at, until = placement.span(start, stop)
    return placement.file[:at] + placement.spell(new, start, stop) + placement.file[until:]


def uncommented(text: str) -> str:
    return PREFIX.sub("", text)


@each(
    ("a = 1\n", "", "x = 1\n# MAGIC b"),
    ("a = 1\nb = 2\n", "d\ne\nf\n", "# MAGIC d\n# MAGIC e\n# MAGIC f\n# MAGIC c"),
    ("= 1\nb", "d\ne", "# MAGIC a d\n# MAGIC e = 2\n"),
    ("2\nc = 3\n", "1\nd\n", "# MAGIC b = 1\n# MAGIC d\ny"),
    ("x = 1", "z", "z\n# MAGIC a"),
    ("y = 2", "z\nw", "# MAGIC c = 3\nz\nw\n"),
)
def test_edited_comment_lines_stay_commented(old: str, new: str, after: str) -> None:
    placement = placed()
    start = placement.text.index(old)
    assert after in edited(placement, start, start + len(old), new)


def test_edit_that_joins_commented_lines_raises_error() -> None:
    placement = placed()
    with pytest.raises(EditError, match="joined"):
        placement.spell("z", placement.text.index("1\nb"), placement.text.index("b"))


@given(st.data())
def test_editing_comment_lines_equals_editing_lines_without_prefixes(data: st.DataObject) -> None:
    placement = placed()
    size = len(placement.text)
    first = placement.text.index("a")  # the edit is within the prefixed lines
    last = placement.text.index("y")
    start = data.draw(st.integers(first, last - 1))
    stop = data.draw(st.integers(start, last))
    new = data.draw(st.text("p\n", max_size=6))
    if stop == size or (start != stop and placement.text[stop - 1] == "\n" and new[-1:] != "\n"):
        return
    expected = placement.text[:start] + new + placement.text[stop:]
    assert uncommented(edited(placement, start, stop, new)) == expected
