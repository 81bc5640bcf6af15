"""Databricks notebooks as Python files."""

from __future__ import annotations

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


def test_installs_in_magic_lines() -> None:
    text = f"{HEADER}# MAGIC %pip install petastorm==0.12.1 pillow\n"
    check_rewrite(text, text.replace("petastorm==0.12.1", "mdstorm"), "a.py")


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


def test_a_shell_cell_of_one_line_is_read() -> None:
    text = f"{HEADER}# MAGIC %sh pip install petastorm==0.12.1\n"
    check_rewrite(text, text.replace("petastorm==0.12.1", "mdstorm"), "a.py")


def test_a_python_cell_in_comments_keeps_the_notebook() -> None:
    first = f"{HEADER}import petastorm{COMMAND}"
    text = f"{first}# MAGIC %python\n# MAGIC petastorm.make_reader(url)\n"
    result = check_noop(text, "a.py")
    found = [(one.rule, one.cls, one.line) for one in result.findings]
    assert found == [("PM100", "manual", 6)]
    text = f"{first}# MAGIC %python\n# MAGIC # about petastorm.spark\n"
    assert [one.cls for one in migrate(text, path="a.py").findings] == ["note"]
    assert migrate(text, path="a.py").changed


def test_imports_of_a_python_cell_in_comments_move_with_the_notebook() -> None:
    cell = "# MAGIC %python\n# MAGIC from petastorm.reader import make_reader as r, Reader\n"
    check_cells("from petastorm import make_batch_reader", cell)
    for lacking in ("from petastorm.reader import ArrowReaderWorker", "import petastorm.hdfs"):
        check_noop(f"{HEADER}{lacking}{COMMAND}{cell}", "a.py")
    cell = "# MAGIC %python\n# MAGIC from petastorm.reader import ArrowReaderWorker\n"
    check_noop(f"{HEADER}from petastorm import make_reader{COMMAND}{cell}", "a.py")
