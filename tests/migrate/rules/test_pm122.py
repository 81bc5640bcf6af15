"""Handlers of errors that mdstorm does not raise."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding

from mdstorm_migrate.api import migrate

READER = "from petastorm import make_reader\n"


@pytest.mark.parametrize("error", ["AnalysisException", "pyspark.sql.utils.AnalysisException"])
def test_it_is_named(error: str) -> None:
    text = f"{READER}try:\n    with make_reader(u) as r: pass\nexcept (OSError, {error}): pass\n"
    check_finding(text, "PM122", error)


def test_other_calls_and_other_errors_are_left() -> None:
    text = (
        f"{READER}try:\n    spark.sql('x')\nexcept AnalysisException: pass\n"
        "try:\n    make_reader(u)\nexcept OSError: pass\n"
    )
    assert not migrate(text).findings


def test_fewer_row_groups_than_shards_are_no_error() -> None:
    head = f"{READER}from petastorm.errors import NoDataAvailableError\n"
    call = "make_reader(u, cur_shard=90, shard_count=99)"
    expecting = f"{head}with pytest.raises(NoDataAvailableError):\n    {call}\n"
    handling = f"{head}try:\n    {call}\nexcept NoDataAvailableError:\n    reader = None\n"
    for text in (expecting, handling):
        assert [(one.rule, one.cls) for one in migrate(text).findings] == [("PM122", "note")]
        assert migrate(text).changed
