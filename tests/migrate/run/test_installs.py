"""What notebooks install."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.migrate.checks import check_rewrite, invoke

from mdstorm_migrate.api import migrate
from mdstorm_migrate.cli.migrate import migrate as command

BOUNDS = "'pyarrow<15' 'numpy<2'"
KEPT = "from petastorm.unischema import _NamedtupleCache\n"


def _databricks(install: str, code: str) -> str:
    magic = f"# MAGIC %pip install {install}\n"
    return f"# Databricks notebook source\n{magic}\n# COMMAND ----------\n\n{code}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("petastorm", f"petastorm mdstorm {BOUNDS}"),
        ("petastorm==0.12.1 pillow", f"petastorm==0.12.1 mdstorm {BOUNDS} pillow"),
        ("petastorm numpy==1.26.4", "petastorm mdstorm 'pyarrow<15' numpy==1.26.4"),
        ("petastorm pyarrow==14.0.2 numpy<2", "petastorm mdstorm pyarrow==14.0.2 numpy<2"),
        ("petastorm pyarrow==17.0.0", "petastorm mdstorm pyarrow==17.0.0"),
        (
            '"petastorm[torch]>=0.9" x',
            '"petastorm[torch]>=0.9" "mdstorm[torch]" "pyarrow<15" "numpy<2" x',
        ),
        ("mdstorm petastorm", "mdstorm petastorm"),
    ],
)
def test_petastorm_stays_where_the_notebook_goes_on_importing_it(before: str, after: str) -> None:
    check_rewrite(
        _databricks(before, KEPT + "from petastorm import make_reader\n"),
        _databricks(after, KEPT + "from mdstorm import make_reader\n"),
        "n.py",
        todo=False,
    )


def test_cells_of_shells_keep_it_as_well() -> None:
    text = "# Databricks notebook source\n# MAGIC %sh\n# MAGIC pip install petastorm==0.12\n"
    code = f"\n# COMMAND ----------\n\n{KEPT}from petastorm import make_reader\n"
    check_rewrite(
        text + code,
        text.replace("==0.12", f"==0.12 mdstorm {BOUNDS}")
        + code.replace("petastorm import", "mdstorm import"),
        "n.py",
        todo=False,
    )


def test_nothing_is_installed_that_is_not_imported() -> None:
    text = _databricks("petastorm", KEPT)
    check_rewrite(text, text, "n.py", todo=False)


def test_a_cell_that_cannot_be_parsed_keeps_it_and_the_other_cells_wait() -> None:
    broken = "from petastorm.pytorch import DataLoader\nprint make_reader\n"
    code = "from petastorm import make_reader\n"
    text = _databricks("petastorm==0.11", f"{code}\n# COMMAND ----------\n\n{broken}")
    result = migrate(text, path="n.py")
    assert result.output == text
    (found,) = result.findings
    assert (found.rule, found.cls) == ("PM101", "review")
    assert "cell 3, which cannot be parsed, imports Petastorm" in found.message
    moved = text.replace(code, "from mdstorm import make_reader\n")
    unsafe = migrate(text, path="n.py", unsafe=True).output
    assert unsafe == moved.replace("0.11", f'0.11 "mdstorm[torch]" {BOUNDS}')


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("is_list", [False, True])
def test_quotes_are_escaped_in_json(indent: int | None, is_list: bool) -> None:
    cells = ['%pip install "petastorm[torch]==0.12"', KEPT + "from petastorm import make_reader"]
    sources = [cell.splitlines(keepends=True) if is_list else cell for cell in cells]
    notebook = {
        "cells": [{"cell_type": "code", "source": source, "outputs": []} for source in sources],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    result = migrate(json.dumps(notebook, indent=indent), path="n.ipynb", todo=False)
    first = json.loads(result.output)["cells"][0]["source"]
    both = '"petastorm[torch]==0.12" "mdstorm[torch]" "pyarrow<15" "numpy<2"'
    assert "".join(first) == f"%pip install {both}"
    assert migrate(result.output, path="n.ipynb", todo=False).output == result.output


@pytest.mark.parametrize("code", [KEPT, "from petastorm.pytorch import DataLoader\n"])
def test_what_pages_that_are_notebooks_import_stays_installed(tmp_path: Path, code: str) -> None:
    page, requirements = tmp_path / "a.md", tmp_path / "requirements.txt"
    page.write_text(f"---\njupyter: x\n---\n```python\n{code}```\n", "utf-8")
    requirements.write_text("petastorm==0.12.1\n", "utf-8")
    assert invoke(command, "-w", "-q", tmp_path).exit_code == 0
    lines = requirements.read_text("utf-8").splitlines()
    assert ("petastorm==0.12.1" in lines) == (code == KEPT)
    assert ("mdstorm[torch]" in lines) == (code != KEPT)
