"""Nulls in tensors: NaN, None, filled, masked, or an error that names the columns."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tests.kit.readers import write_parquet
from tests.kit.small_datasets import array_of
from tests.unit.compat.spark.converters import IN_ORDER, Read, converter_of, with_either

from mdstorm import TransformSpec
from mdstorm.errors import NullValueError
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import DataLoader
from mdstorm.reader import make_batch_reader
from mdstorm.spark import SparkDatasetConverter
from mdstorm.tf_utils import make_petastorm_dataset

NAN = float("nan")

#: Spark types and values with one null. tests/unit/mds_backend/loaders covers more combinations.
NULLS: dict[str, tuple[Any, list[Any]]] = {
    "byte": ("byte", [-1, None]),
    "long": ("long", [None, 1]),
    "boolean": ("boolean", [True, None]),
    "timestamp": ("timestamp_ntz", [dt.datetime(2020, 1, 1), None]),
    "string": ("string", ["a", None]),
    "array": (array_of("integer"), [[1, 2], None]),
}


def nulls(tmp_path: Path, name: str) -> SparkDatasetConverter:
    spark_type, values = NULLS[name]
    return converter_of(tmp_path / "nulls", {"v": values}, {"v": spark_type})


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize("pool", ["thread", pytest.param("process", marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["predicate", "filters", "where", "rows"])
def test_nulls_in_rows_that_are_filtered_out_raise_no_error(
    tmp_path: Path, read: Read, how: str, pool: str
) -> None:
    columns = {"id": [0, 1, 2], "v": [True, None, False]}
    converter = converter_of(tmp_path / "nulls", columns, {"id": "long", "v": "boolean"})
    left: dict[str, Any] = {
        "predicate": in_lambda(["id"], lambda id: id != 1),
        "filters": [("id", "!=", 1)],
        "where": [("v", "!=", None)],
        "rows": [0, 2],
    }
    batches = read(converter, reader_pool_type=pool, **{how: left[how]}, **IN_ORDER)
    assert [list(batch["v"]) for batch in batches] == [[True, False]]
    left = {
        "predicate": in_lambda(["id"], lambda id: id > 0),
        "filters": [("id", ">", 0)],
        "where": [("id", ">", 0)],
        "rows": [1, 2],
    }
    with pytest.raises((NullValueError, tf.errors.OpError), match="column 'v' holds 1 null"):
        read(converter, reader_pool_type=pool, **{how: left[how]}, **IN_ORDER)


@with_either
def test_mask_and_fill_for_same_column_both_apply(tmp_path: Path, read: Read) -> None:
    converter = nulls(tmp_path, "boolean")
    (batch,) = read(converter, null_masks=["v"], fill_nulls={"v": True}, **IN_ORDER)
    assert batch == {"v": [True, True], "v_is_null": [False, True]}


@pytest.mark.parametrize(
    ("name", "masks", "expected"),
    [
        ("byte", [], {"v": [-1.0, NAN]}),
        ("boolean", [], {"v": [True, None]}),
        ("string", [], {"v": ["a", None]}),
        ("boolean", ["v"], {"v": [True, False], "v_is_null": [False, True]}),
    ],
)
def test_transform_gets_null_masks_and_nulls_as_in_petastorm(
    tmp_path: Path, name: str, masks: list[str], expected: dict[str, list[Any]]
) -> None:
    seen = []
    spec = TransformSpec(lambda frame: seen.append(frame.to_dict("list")) or frame.dropna())
    options: dict[str, Any] = {"num_epochs": 1, "null_masks": masks, "transform_spec": spec}
    list(nulls(tmp_path, name).make_torch_dataloader(**options))
    assert repr(seen) == repr([expected])


def nan_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return [text for text in texts if "so the loss becomes NaN" in text]


@with_either
def test_nulls_that_become_nan_are_logged_once_with_column_and_count(
    tmp_path: Path, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    columns = {
        "id": [0, 1, 2],
        "v": [0.5, None, None],
        "array": [[1.0, None], [1.0, 2.0], [3.0, 4.0]],
    }
    fields = {"id": "long", "v": "double", "array": array_of("double")}
    converter = converter_of(tmp_path / "nulls", columns, fields)
    for _ in range(2):
        read(converter, **{**IN_ORDER, "batch_size": 1})
    framework = "PyTorch" if "torch" in read.__name__ else "TensorFlow"
    found = nan_warnings(caplog)
    assert [text.partition(" of ")[0] for text in found] == ["Column 'v'", "Column 'array'"]
    assert f"holds 2 nulls, which {framework} receives as NaN" in found[0]
    assert "fill_nulls={'v': …}" in found[0]
    assert "null_masks=['v']" in found[0]


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize(
    "decision",
    [
        {"fill_nulls": {"v": 0}},
        {"fill_nulls": {"v": NAN}},
        {"null_masks": ["v"]},
        {"filters": [("v", "!=", None)]},
        {"schema_fields": ["id"]},
    ],
    ids=["fill", "nan", "mask", "filter", "unread"],
)
def test_nulls_with_fill_mask_or_filter_are_not_logged(
    tmp_path: Path, read: Read, decision: Any, caplog: pytest.LogCaptureFixture
) -> None:
    columns = {"id": [0, 1], "v": [0.5, None]}
    converter = converter_of(tmp_path / "nulls", columns, {"id": "long", "v": "double"})
    read(converter, **decision, **IN_ORDER)
    assert nan_warnings(caplog) == []


def test_integer_nulls_from_readers_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = write_parquet(tmp_path, {"v": [1, None], "text": ["a", None]})
    with DataLoader(make_batch_reader(url), batch_size=2) as loader:
        (batch,) = loader
    assert batch["v"].isnan().sum() == 1
    (found,) = nan_warnings(caplog)
    assert found.startswith(f"Column 'v' of {url} holds 1 null, which PyTorch receives as NaN")


def test_nulls_from_readers_are_logged_in_tensorflow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = write_parquet(tmp_path, {"v": [1.0, None]})
    with make_batch_reader(url) as reader:
        list(make_petastorm_dataset(reader))
    assert len(nan_warnings(caplog)) == 1
