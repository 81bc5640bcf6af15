"""Notebooks that Databricks or Jupytext store as Python scripts or Markdown pages."""

import re
from pathlib import PurePath

import pytest
from tests.kit.migrating import check_held, check_noop, check_rewrite, each

from mdstorm_migrate.api import migrate
from mdstorm_migrate.sources import find_source

HEADER = "# Databricks notebook source\n"
COMMAND = "\n# COMMAND ----------\n\n"


@each(
    ["import petastorm", "# MAGIC %md about petastorm", "petastorm.make_reader(url)"],
    [  # cells that are not valid Python on their own
        "from petastorm.spark import make_spark_converter\nif x:\n  !rm -rf /tmp/x",
        " import petastorm\n petastorm.make_reader(1)",
        "# MAGIC %md about petastorm",
        "%time x = 3",
    ],
    # cells whose Python code is in comments, alongside other cells
    ["import petastorm", "# MAGIC %python\n# MAGIC petastorm.make_reader(url)\n", "r = 1"],
    [
        "# MAGIC %python\n# MAGIC from petastorm import (make_reader,\n"
        "# MAGIC   reader)\n# MAGIC\n",
        "# MAGIC %pip install petastorm\n",
        "# MAGIC %md petastorm\n",
        "# MAGIC %python\n# MAGIC if x:\n# MAGIC     reader.Reader, make_reader\n",
    ],
    ["import petastorm", "# MAGIC %python petastorm.make_reader(u)\n# MAGIC x = 1\n"],
    ["# MAGIC %python\n# MAGIC !ls\n# MAGIC import petastorm\n", "petastorm.reader"],
)
def test_script_notebook_cells_form_one_module(cells: list[str]) -> None:
    before = HEADER + COMMAND.join(cells)
    after = "".join(
        line if line.startswith("# MAGIC %md") else line.replace("petastorm", "mdstorm")
        for line in before.splitlines(keepends=True)
    )
    check_rewrite(before, after, "a.py")
    check_rewrite(before.replace("\n", "\r\n"), after.replace("\n", "\r\n"), "a.py")


def test_broken_cell_is_reported_with_cell_number_and_line_in_file() -> None:
    cells = ["import petastorm.spark as s\n", "x = 1", "s = petastorm.f(:\n", "Das ist Prosa.\n"]
    text = HEADER + COMMAND.join(cells)
    result = migrate(text, path="a.py")
    assert result.output == text.replace("import petastorm", "import mdstorm")
    (problem,) = result.errors
    assert (problem.cell, problem.line) == (3, text[: text.index("s = ")].count("\n") + 1)


def test_findings_have_line_numbers_in_the_file() -> None:
    cells = ["!ls", " x = 1\n from petastorm.reader import Ventilator"]
    text = HEADER + COMMAND.join(cells)
    result = migrate(text, path="a.py")
    (found,) = result.findings
    line = text[: text.index("from petastorm")].count("\n") + 1
    assert (found.cell, found.line, found.column) == (None, line, 31)
    assert f"{COMMAND} x = 1\n # TODO(mdstorm): PM107" in result.output


@each("\n", "\r\n")
def test_todo_comment_in_magic_cell_has_magic_prefix(end: str) -> None:
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


def test_cell_in_other_language_gets_note() -> None:
    cell = '# MAGIC %r\n# MAGIC petastorm <- import("petastorm")\n'
    (found,) = check_noop(f"{HEADER}x = 1{COMMAND}{cell}", "a.py").findings
    assert (found.rule, found.cls) == ("PM100", "note")


def test_all_cells_stay_on_petastorm_if_one_cell_does() -> None:
    cell = "# MAGIC %python\n# MAGIC from petastorm.reader import make_reader as r, Reader\n"
    for missing in ("from petastorm.reader import ArrowReaderWorker", "import petastorm.hdfs"):
        check_noop(f"{HEADER}{missing}{COMMAND}{cell}", "a.py")
    cell = "# MAGIC %python\n# MAGIC from petastorm.reader import ArrowReaderWorker\n"
    check_noop(f"{HEADER}from petastorm import make_reader{COMMAND}{cell}", "a.py")


def test_python_magic_cell_is_read_as_python() -> None:
    text = (
        "# Databricks notebook source\n# MAGIC %python\n# MAGIC from petastorm import make_reader\n"
    )
    result = migrate(text, path="a.py")
    assert result.output == text.replace("petastorm", "mdstorm")
    assert result.findings == ()


JUPYTEXT = "---\njupyter:\n  kernelspec: {name: python3}\n---\n\n"
LIGHT = "# ---\n# jupyter:\n#   jupytext:\n#     x: 1\n# ---\n\n"


@pytest.mark.parametrize("start", ["# %%\n", "# %% tags=['x']\nx = 1\n", LIGHT])
@pytest.mark.parametrize("magic", ["!pip install", "%pip install -q", "!python3 -m pip install"])
def test_commented_pip_magics_install_mdstorm(start: str, magic: str) -> None:
    text = f"{start}# {magic} petastorm==0.12.1 numpy\nfrom petastorm import make_reader\n"
    after = text.replace("petastorm==0.12.1", "mdstorm").replace("petastorm", "mdstorm")
    check_rewrite(text, after, "a.py")
    check_rewrite(text.replace("\n", "\r\n"), after.replace("\n", "\r\n"), "a.py")


def test_install_command_in_commented_shell_cell_is_migrated() -> None:
    cell = '# %% language="bash"\n# set -e\n# pip install \\\n#   {}\n'
    check_rewrite(
        f"{cell.format('petastorm==0.12')}\n# %%\nx = 1\n",
        f"{cell.format('mdstorm')}\n# %%\nx = 1\n",
        "a.py",
    )
    check_noop(f"# %%\n{cell.format('petastorm').partition(chr(10))[2]}", "a.py")  # a comment


@each(
    "# !pip install petastorm\nx = 1\n",
    "# %% [markdown]\n# !pip install petastorm\n",
    "# %%\nx = '''\n# !pip install petastorm\n'''\n",
)
def test_install_commands_in_other_comments_are_unchanged(text: str) -> None:
    check_noop(text, "a.py")


@each(
    ("a.md", JUPYTEXT, "```python"),
    ("a.md", "---\nkernelspec:\n  name: x\n---\n", "```{code-cell} ipython3\n:tags: [a]"),
    ("a.md", JUPYTEXT, "~~~python"),
    ("a.qmd", "", "```{python}"),
    ("a.Rmd", "", "```{python name, echo=FALSE}"),
)
def test_code_cells_on_page_are_migrated(path: str, head: str, fence: str) -> None:
    end = fence[:3]
    text = (
        f"{head}# About petastorm\n\n{fence}\nimport petastorm\n%time x = 1\n{end}\n\nthen\n\n"
        f"{fence}\npetastorm.make_reader(url)\n{end}\nand {end}bash\npip install petastorm\n{end}\n"
    )
    after = text.replace("import petastorm", "import mdstorm").replace("petastorm.m", "mdstorm.m")
    check_rewrite(text, after, path)


def test_text_between_cells_of_page_has_no_code() -> None:
    text = f"{JUPYTEXT}one\n```python\nx = 1\n```\ntwo\n```bash\nls\n```\nthree\n"
    path = PurePath("a.md")
    documents = find_source(path, text.encode()).read(text.encode(), path).documents
    (between,) = (one.text for one in documents if one.kind == "markdown")
    assert between == text.replace("x = 1\n", "").replace("ls\n", "")


def test_install_commands_on_page_install_mdstorm() -> None:
    text = f"{JUPYTEXT}```bash\npip install petastorm==0.12.1\n```\n"
    check_rewrite(text, text.replace("petastorm==0.12.1", "mdstorm"), "a.md")


def test_todo_comment_is_inserted_into_cell_on_page() -> None:
    text = f"{JUPYTEXT}```python\nfrom petastorm.reader import Ventilator\n```\n"
    output = migrate(text, path="a.md").output
    assert "```python\n# TODO(mdstorm): PM107: " in output
    assert "\nfrom petastorm.reader import Ventilator\n```\n" in output


def test_broken_cell_on_page_is_reported_with_line() -> None:
    text = f"{JUPYTEXT}```python\nimport petastorm as p\n```\n\n```python\npetastorm.f(:\n```\n"
    result = migrate(text, path="a.md")
    assert result.output == text.replace("import petastorm", "import mdstorm")
    (problem,) = result.errors
    assert problem.line == text[: text.index("petastorm.f")].count("\n") + 1


@each("```python", '```python active="md"', "```{python, eval=FALSE}", "```text")
def test_page_blocks_that_do_not_run_are_reported(fence: str) -> None:
    block = f"{fence}\nimport petastorm\n```\n"
    check_held(f"# A page\n\n{block}", "PM410", "import petastorm", "a.md")
    if "python" not in fence or "active" in fence:
        check_held(f"{JUPYTEXT}{block}", "PM410", "import petastorm", "a.md")
