"""Files that change Petastorm."""

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
def test_they_wait_for_review(statement: str) -> None:
    text = f"{IMPORTS}def f():\n    {statement}\n"
    check_noop(text)
    assert "PM108" in {found.rule for found in migrate(text).findings}


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
