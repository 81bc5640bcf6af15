"""Databricks notebooks as Python files."""

import re

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate

HEADER = "# Databricks notebook source\n"
COMMAND = "\n# COMMAND ----------\n\n"


def check_cells(*cells: str) -> None:
    """Assert that `petastorm` is `mdstorm` afterwards, but for lines of comments."""
    before = HEADER + COMMAND.join(cells)
    after = "".join(
        line if line.startswith("# MAGIC %md") else line.replace("petastorm", "mdstorm")
        for line in before.splitlines(keepends=True)
    )
    check_rewrite(before, after, "a.py")
    check_rewrite(before.replace("\n", "\r\n"), after.replace("\n", "\r\n"), "a.py")


def test_cells_are_one_module() -> None:
    check_cells("import petastorm", "# MAGIC %md about petastorm", "petastorm.make_reader(url)")


def test_cells_that_are_not_python_as_a_whole() -> None:
    check_cells(
        "from petastorm.spark import make_spark_converter\nif x:\n  !rm -rf /tmp/x",
        " import petastorm\n petastorm.make_reader(1)",
        "# MAGIC %md about petastorm",
        "%time x = 3",
    )


def test_a_broken_cell_is_named_by_number_and_by_line_of_the_file() -> None:
    cells = ["import petastorm.spark as s\n", "x = 1", "s = petastorm.f(:\n", "Das ist Prosa.\n"]
    text = HEADER + COMMAND.join(cells)
    result = migrate(text, path="a.py")
    assert result.output == text.replace("import petastorm", "import mdstorm")
    (problem,) = result.errors
    assert (problem.cell, problem.line) == (3, text[: text.index("s = ")].count("\n") + 1)


def test_places_are_those_of_the_file() -> None:
    cells = ["!ls", " x = 1\n from petastorm.reader import Ventilator"]
    text = HEADER + COMMAND.join(cells)
    result = migrate(text, path="a.py")
    (found,) = result.findings
    line = text[: text.index("from petastorm")].count("\n") + 1
    assert (found.cell, found.line, found.column) == (None, line, 31)
    assert f"{COMMAND} x = 1\n # TODO(mdstorm): PM107" in result.output


def test_a_python_cell_in_comments_is_one_of_the_others() -> None:
    check_cells(
        "import petastorm", "# MAGIC %python\n# MAGIC petastorm.make_reader(url)\n", "r = 1"
    )
    check_cells(
        "# MAGIC %python\n# MAGIC from petastorm import (make_reader,\n"
        "# MAGIC   reader)\n# MAGIC\n",
        "# MAGIC %pip install petastorm\n",
        "# MAGIC %md petastorm\n",
        "# MAGIC %python\n# MAGIC if x:\n# MAGIC     reader.Reader, make_reader\n",
    )


def test_code_may_stand_behind_the_magic_and_beside_others() -> None:
    check_cells("import petastorm", "# MAGIC %python petastorm.make_reader(u)\n# MAGIC x = 1\n")
    check_cells("# MAGIC %python\n# MAGIC !ls\n# MAGIC import petastorm\n", "petastorm.reader")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_comments_are_inserted_as_lines_of_their_cell(end: str) -> None:
    cell = (
        "# MAGIC %python\n# MAGIC def f():\n# MAGIC     from petastorm.reader import Ventilator\n"
    )
    text = f"{HEADER}x = 1{COMMAND}{cell}".replace("\n", end)
    result = migrate(text, path="a.py")
    assert re.search(
        rf"{end}# MAGIC def f\(\):{end}# MAGIC     # TODO\(mdstorm\): PM107: [^\r\n]*{end}"
        rf"# MAGIC     from petastorm.reader import Ventilator{end}\Z",
        result.output,
    )
    assert result.output == migrate(result.output, path="a.py").output


def test_a_note_says_of_other_languages_that_they_were_skipped() -> None:
    cell = '# MAGIC %r\n# MAGIC petastorm <- import("petastorm")\n'
    (found,) = check_noop(f"{HEADER}x = 1{COMMAND}{cell}", "a.py").findings
    assert (found.rule, found.cls) == ("PM100", "note")


def test_cells_of_one_notebook_wait_together() -> None:
    cell = "# MAGIC %python\n# MAGIC from petastorm.reader import make_reader as r, Reader\n"
    for lacking in ("from petastorm.reader import ArrowReaderWorker", "import petastorm.hdfs"):
        check_noop(f"{HEADER}{lacking}{COMMAND}{cell}", "a.py")
    cell = "# MAGIC %python\n# MAGIC from petastorm.reader import ArrowReaderWorker\n"
    check_noop(f"{HEADER}from petastorm import make_reader{COMMAND}{cell}", "a.py")


def test_cells_of_python_in_comments_are_no_other_language() -> None:
    text = (
        "# Databricks notebook source\n# MAGIC %python\n# MAGIC from petastorm import make_reader\n"
    )
    result = migrate(text, path="a.py")
    assert result.output == text.replace("petastorm", "mdstorm")
    assert result.findings == ()
