"""Datasets as RDDs of decoded rows."""

from typing import Any

import pytest
from tests.compat.etl.golden_rows import assert_rows, expected_rows, golden_url
from tests.conftest import IS_CONNECT, IS_REFUSING

from mdstorm.errors import UnsupportedArgumentError
from mdstorm.spark_utils import _rows, dataset_as_rdd


@pytest.mark.skipif(IS_REFUSING, reason="makes an RDD, which this session refuses")
def test_a_dataset_of_petastorm_is_an_rdd(classic_spark: Any) -> None:
    rows = dataset_as_rdd(golden_url("codecs"), classic_spark).collect()
    assert_rows(sorted(rows, key=lambda row: row.id), expected_rows("codecs"))
    some = dataset_as_rdd(golden_url("codecs"), classic_spark, ["id", "vec"])
    assert some.getNumPartitions() == 2
    found = some.collect()
    assert {type(row).__name__ for row in found} == {"Codecs_view_view"}
    assert sorted(int(row.id) for row in found) == list(range(12))


@pytest.mark.skipif(not IS_CONNECT and not IS_REFUSING, reason="a classic session has RDDs")
def test_a_session_without_rdds_is_refused(spark: Any) -> None:
    with pytest.raises(UnsupportedArgumentError, match="needs a classic Spark session"):
        dataset_as_rdd(golden_url("codecs"), spark)


def test_executors_read_whole_row_groups() -> None:
    from mdstorm.etl.dataset_metadata import get_schema_from_dataset_url

    url = golden_url("codecs")
    schema = get_schema_from_dataset_url(url)
    rows = [*_rows(url, schema, iter([1])), *_rows(url, schema, iter([0]))]
    assert_rows(sorted(rows, key=lambda row: row.id), expected_rows("codecs"))
