"""`make_spark_converter(…, decimals=)`: decimals stored as floats, which models can train on."""

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf
import torch
from tests.conftest import of_values, runs_python_on_executors
from tests.kit.readers import write_parquet
from tests.unit.compat.spark.converters import IN_ORDER, converter_of

from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import open_dataset

HALVES = "SELECT id, id * 0.5 AS x, array(id * 0.1) AS tenths FROM range(4)"
COLUMNS = {"id": range(4), "x": [Decimal(n) / 2 for n in range(4)]}


@pytest.fixture
def halves(tmp_path: Path) -> SparkDatasetConverter:
    """A converter with a decimal column, which conversions keep by default."""
    return converter_of(tmp_path / "halves", COLUMNS, {"id": "long", "x": "decimal(21,1)"})


@of_values
@pytest.mark.parametrize(
    ("decimals", "dtype"), [("float64", torch.float64), ("float32", torch.float32)]
)
def test_copies_with_decimals_argument_store_floats(
    spark: Any, cache_dir: Any, decimals: str, dtype: torch.dtype
) -> None:
    converter = make_spark_converter(spark.sql(HALVES).coalesce(1), decimals=decimals)
    stored = {c.name: c.encoding for c in open_dataset(converter.cache_dir_url).schema}
    assert stored == {"id": "int64", "x": decimals, "tenths": f"ndarray:{decimals}"}
    (batch,) = converter.make_torch_dataloader(**IN_ORDER)
    assert torch.equal(batch["x"], torch.arange(4, dtype=dtype) / 2)
    assert torch.equal(batch["tenths"], torch.tensor([[0.0], [0.1], [0.2], [0.3]], dtype=dtype))
    (row,) = converter.make_tf_dataset(**IN_ORDER)
    assert row.x.dtype == tf.as_dtype(decimals)


@of_values
@runs_python_on_executors
def test_decimals_are_the_same_in_staged_and_direct_copies(spark: Any, cache_dir: Any) -> None:
    df = spark.sql(HALVES).coalesce(1)
    staged, direct = (
        make_spark_converter(df, decimals="float32", parquet_row_group_size_bytes=size, staging=way)
        for size, way in ((1 << 20, True), (1 << 21, False))
    )
    tables = [open_dataset(c.cache_dir_url).to_table() for c in (staged, direct)]
    assert tables[0].equals(tables[1])


def test_loader_over_decimals_warns_unless_decimals_is_given(halves: SparkDatasetConverter) -> None:
    with pytest.warns(UserWarning, match="column 'x' of .* reach PyTorch .* decimals=") as caught:
        (batch,) = halves.make_torch_dataloader(**IN_ORDER)
    assert len(caught) == 1
    assert isinstance(batch["x"], list)
    with pytest.warns(UserWarning, match="column 'x' of .* reach TensorFlow as text"):
        halves.make_tf_dataset(**IN_ORDER)
    # From here on, a warning would fail the test.
    for arguments in ({}, {"decimals": "decimal"}, {"schema_fields": ["id"]}):
        list(halves.make_torch_dataloader(**arguments, **IN_ORDER))
    (batch,) = halves.make_torch_dataloader(decimals="float64", **IN_ORDER)
    assert batch["x"].tolist() == [0.0, 0.5, 1.0, 1.5]
    # Columns that the model does not use cause no warning either.
    for filters in (None, [("id", ">=", 0)]):
        list(halves.make_torch_dataloader(features=["id"], filters=filters, num_epochs=1))


def test_converter_decimals_argument_applies_to_its_loaders(tmp_path: Path) -> None:
    columns = COLUMNS | {"x": pa.array(COLUMNS["x"], pa.decimal128(21, 1))}
    converter: Any = make_spark_converter(write_parquet(tmp_path, columns), decimals="float64")
    for made in (converter, pickle.loads(pickle.dumps(converter))):  # noqa: S301  # our own
        (batch,) = made.make_torch_dataloader(**IN_ORDER)
        assert batch["x"].tolist() == [0.0, 0.5, 1.0, 1.5]
        (row,) = made.make_tf_dataset(**IN_ORDER)
        assert row.x.dtype == tf.float64
