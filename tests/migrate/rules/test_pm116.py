"""Examples in docstrings."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate


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


def test_expected_output_that_names_a_module_is_spoken_of() -> None:
    text = '''def f():
    """Do it.

    >>> x = 1
    >>> for y in (x,):
    ...     print(Unischema.__module__, y)
    petastorm.unischema 1
    >>> print("s3://petastorm.unischema", "petastorm.parquet")
    s3://petastorm.unischema petastorm.parquet

    In petastorm.reader all is well.
    """
'''
    check_noop(text)
    check_finding(text, "PM116", "petastorm.unischema")
    assert len([one for one in migrate(text).findings if one.rule == "PM116"]) == 1
