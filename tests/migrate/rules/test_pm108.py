"""Files that change Petastorm."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate

IMPORTS = (
    "import petastorm\nimport petastorm.spark as ps\nfrom petastorm.reader import Reader\n"
    "from petastorm.workers_pool import process_pool\n"
)


@pytest.mark.parametrize(
    "statement",
    [
        "petastorm.spark.make_spark_converter = fake",
        "ps.make_spark_converter = fake",
        "Reader.stop = lambda self: None",
        "process_pool.exec_in_new_process = fake",
        "ps.counter += 1",
        "del petastorm.spark.make_spark_converter",
        "setattr(ps, 'make_spark_converter', fake)",
        "for ps.x in y: pass",
    ],
)
def test_nothing_in_them_changes(statement: str) -> None:
    check_noop(f"{IMPORTS}def f():\n    {statement}\n")


@pytest.mark.parametrize(
    "statement",
    [
        "converter = ps.make_spark_converter(df)\nconverter._dataset_path = x",
        "self.petastorm = x",
        "monkeypatch.setattr(ps, 'make_spark_converter', fake)",
        "class R(Reader):\n    stop = None",
    ],
)
def test_other_assignments_change_no_library(statement: str) -> None:
    before = f"import petastorm.spark as ps\nfrom petastorm.reader import Reader\n{statement}\n"
    after = f"import mdstorm.spark as ps\nfrom mdstorm.reader import Reader\n{statement}\n"
    check_rewrite(before, after)


def test_what_is_not_done_there_is_not_announced() -> None:
    text = (
        "import petastorm.pytorch as p\np.DataLoader = 1\n"
        "from petastorm.pytorch import BatchDataLoader\nfrom petastorm.reader import Ventilator\n"
    )
    result = migrate(text)
    assert [(found.rule, found.cls, found.is_marked) for found in result.findings] == [
        ("PM108", "manual", True),
        ("PM107", "manual", False),
    ]
    assert result.output.count("TODO(mdstorm)") == 1
