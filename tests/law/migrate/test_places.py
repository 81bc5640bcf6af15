"""After `-w`, reports name the places that a second run finds in the written files."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.migrating import invoke, write_files

from mdstorm_migrate.cli.migrate import migrate

TODO = "# TODO(mdstorm)"
#: Statements that move, that stay, and that are only mentioned.
STATEMENTS = [
    "from petastorm import make_reader",
    "from petastorm.pytorch import DataLoader as D, BatchedDataLoader",
    "from petastorm.hdfs import x",
    "import petastorm.reader, petastorm.hdfs.namenode as n",
    "from petastorm.reader import ArrowReaderWorker, Reader",
    "import petastorm\nprint(petastorm.__version__ > '0.9')",
    "def f():\n    from petastorm.hdfs import y\n    return y",
    "x = 'é' + 'petastorm'",
    "import sys",
    "sys.modules['petastorm.hdfs'] = None",
    "if x: import petastorm.tools",
    "# petastorm: see the manual",
    "y = 1; from petastorm.hdfs import z",
    "def g(reader):\n    return reader._workers_pool",
    'class C:\n    """Rows.\n\n    >>> from petastorm import make_reader\n    """',
    "s = '''\nfrom petastorm import a\n'''",
]
LISTS = [
    "petastorm==0.12",
    "petastorm @ git+ssh://h/p",
    "# petastorm",
    "numpy",
    "petastorm[torch]; python_version > '3.8'",
    "other[petastorm]",
]


def code(draw: random.Random) -> str:
    head = draw.choice(["", "\ufeff", "#!/usr/bin/env python\n", '"""Text.\n\nMore."""\n'])
    lines = draw.sample(STATEMENTS, draw.randrange(2, 7))
    return head + "\n".join([*lines, ""])


def windows(draw: random.Random) -> str:
    return code(draw).replace("\n", "\r\n")


def notebook(draw: random.Random) -> str:
    cells = [
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": "".join([*draw.sample(STATEMENTS, 2), ""]).splitlines(keepends=True),
        }
        for _ in range(draw.randrange(1, 4))
    ]
    written = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(written, indent=draw.choice([None, 1, 2]))


def databricks(draw: random.Random) -> str:
    cells = [code(draw).lstrip("\ufeff") for _ in range(2)]
    return "# Databricks notebook source\n" + "\n# COMMAND ----------\n\n".join(cells)


def listed(draw: random.Random) -> str:
    return "\n".join([*draw.sample(LISTS, draw.randrange(1, 5)), ""])


FILES: dict[str, Callable[[random.Random], str]] = {
    "a.py": code,
    "p/b.py": windows,
    "c.ipynb": notebook,
    "d.py": databricks,
    "requirements.txt": listed,
    "conf.yaml": lambda draw: "a: 1\nr:\n  _target_: petastorm.hdfs.x\n",
    "Dockerfile": lambda draw: "FROM python:3.11\nRUN pip install petastorm==0.12 \\\n  numpy\n",
    "README.md": lambda draw: "# Use\n\n```python\nfrom petastorm import make_reader\n```\n",
}


def places(report: Path) -> list[tuple[Any, ...]]:
    """Return where each finding is.

    Code below a TODO comment may be found by a rule, or by its comment: its column is left out.
    """
    found = set()
    for file in json.loads(report.read_text())["files"]:
        for one in file["findings"]:
            lines, line, column = (
                lines_of(Path(file["path"]), one["cell"]),
                one["line"],
                one["column"],
            )
            while TODO in lines[line - 1]:
                line += 1
            is_below = TODO in "".join(lines[line - 2 : line - 1])
            found.add((file["path"], one["cell"], line, "below" if is_below else column))
    return sorted(found, key=str)


def lines_of(path: Path, cell: int | None) -> list[str]:
    text = path.read_text("utf-8-sig")
    if cell is None:
        return text.splitlines()
    return "".join(json.loads(text)["cells"][cell - 1]["source"]).splitlines()


SEEDS = [*range(6), *(pytest.param(n, marks=pytest.mark.long) for n in range(6, 60))]


@pytest.mark.parametrize("option", [[], ["--unsafe"]])
@pytest.mark.parametrize("seed", SEEDS)
def test_places_after_writing_are_those_of_a_second_run(
    seed: int, option: list[str], tmp_path: Path
) -> None:
    draw, report = random.Random(seed), tmp_path / "report.json"
    root = tmp_path / "project"
    names = draw.sample([*FILES], draw.randrange(2, 6))
    write_files(root, {name: FILES[name](draw) for name in names})
    found = []
    for _ in range(2):
        invoke(migrate, "-w", "-q", "-j", "1", "--no-diff", *option, "--report", report, root)
        found.append(places(report))
    assert found[0] == found[1]
