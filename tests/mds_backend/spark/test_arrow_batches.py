"""How many rows an Arrow batch has, and that the user's setting survives."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import IS_REFUSING
from tests.mds_backend.small_datasets import array_of, plan, struct_of

from mdstorm_backend.spark.materialization import materialize
from mdstorm_backend.spark.sessions import rows_per_batch, sized_arrow_batches

CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"
BINARIES = plan({"x": "binary"})

reads_conf = pytest.mark.skipif(IS_REFUSING, reason="reads a conf that this session refuses")


@pytest.mark.parametrize(
    ("spark_type", "rows"),
    [
        ("long", 10_000),
        ("string", 512),
        ("decimal(38,0)", 10_000),
        (array_of("double"), 512),
        (array_of("string"), 512),
        (struct_of(a="long"), 512),
        ("binary", 128),
    ],
    ids=str,
)
def test_wider_columns_get_fewer_rows(spark_type: Any, rows: int) -> None:
    assert rows_per_batch(plan({"x": spark_type})) == rows


def test_the_widest_column_decides() -> None:
    schema = plan({"a": "long", "b": "binary", "c": array_of("double")})
    assert rows_per_batch(schema) == 128


@reads_conf
@pytest.mark.parametrize(
    ("before", "inside"),
    [(None, "128"), ("5000", "128"), ("128", "128"), ("7", "7"), ("0", "128"), ("-1", "128")],
)
def test_the_setting_is_lowered_and_restored(
    spark: Any, set_conf: Any, before: str | None, inside: str
) -> None:
    set_conf(CONF, before)
    with sized_arrow_batches(spark, BINARIES):
        assert spark.conf.get(CONF) == inside
    assert spark.conf.get(CONF, None) == before


def test_all_rows_arrive_in_batches_of_any_size(spark: Any, target: Path) -> None:
    """Where the session refuses the setting, the first batch has 10,000 rows instead of 128."""
    df = spark.range(0, 10_500, 1, 1).selectExpr("CAST(id AS STRING) AS x", "X'00' AS y")
    assert materialize(df, str(target)).to_table().column("x").to_pylist() == [
        str(i) for i in range(10_500)
    ]


@pytest.mark.long
def test_large_binaries_of_more_rows_than_an_arrow_batch_holds(spark: Any, tmp_path: Path) -> None:
    """Without smaller batches the first one has 2.5 GB, which Spark 3.5 does not survive."""
    rows, size = 10_500, 250_000
    df = spark.range(0, rows, 1, 1).selectExpr(f"CAST(repeat('x', {size}) AS BINARY) AS x")
    target = tmp_path / "dataset"
    try:
        dataset = materialize(df, str(target), shard_size=1 << 28)
        assert len(dataset) == rows
        assert dataset.nbytes > rows * size
        assert dataset[rows - 1]["x"] == b"x" * size
    finally:
        shutil.rmtree(target, ignore_errors=True)
