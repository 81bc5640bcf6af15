"""Examples in docstrings."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite


def documented(line: str) -> str:
    return f'def f():\n    """Do it.\n\n    {line}\n    """\n'


@pytest.mark.parametrize(
    "line",
    [
        ">>> from petastorm import make_reader, TransformSpec as Spec",
        ">>> from petastorm.spark import make_spark_converter  # doctest: +SKIP",
    ],
)
def test_imports_of_examples_move(line: str) -> None:
    check_rewrite(documented(line), documented(line.replace("petastorm", "mdstorm")))


@pytest.mark.parametrize(
    "line",
    [
        "import petastorm.spark",
        "from petastorm.reader import Ventilator",
        "from petastorm.hdfs import x",
        "from petastorm.spark import (",
    ],
)
def test_others_need_manual_review(line: str) -> None:
    text = documented(f">>> {line}")
    check_noop(text)
    check_finding(text, "PM116", line)


@pytest.mark.parametrize(
    "line", ["from petastorm import x", ">>> # import petastorm", "> petastorm"]
)
def test_prose_stays(line: str) -> None:
    check_noop(documented(line))
