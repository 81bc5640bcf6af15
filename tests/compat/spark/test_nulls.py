"""Nulls on their way into tensors: NaN, None, filled, masked, or an error that names them."""

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import torch
from tests.compat.spark.converters import IN_ORDER, Read, converter_of, with_either
from tests.mds_backend.small_datasets import array_of

from mdstorm import TransformSpec
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, NullValueError
from mdstorm.predicates import in_lambda
from mdstorm.spark import SparkDatasetConverter

NAN = float("nan")
UTC = dt.timezone.utc

#: Spark type, values, and what PyTorch and TensorFlow make of them (None: an error).
NULLS: dict[str, tuple[Any, list[Any], Any, Any]] = {
    "byte": ("byte", [-1, None], (torch.float64, [-1, NAN]), None),
    "int": ("integer", [2**31 - 1, None], (torch.float64, [2**31 - 1, NAN]), None),
    "long": ("long", [None, 1], (torch.float64, [NAN, 1]), None),
    "interval": (
        "interval day to second",
        [dt.timedelta(0, 1), None],
        (torch.float64, [1_000_000, NAN]),
        None,
    ),
    "float": ("float", [1.5, None], (torch.float32, [1.5, NAN]), (tf.float32, [1.5, NAN])),
    "double": ("double", [1.5, None], (torch.float64, [1.5, NAN]), (tf.float64, [1.5, NAN])),
    "boolean": ("boolean", [True, None], None, None),
    "timestamp": ("timestamp", [dt.datetime(2020, 1, 1, tzinfo=UTC), None], None, None),
    "timestamp_ntz": ("timestamp_ntz", [dt.datetime(2020, 1, 1), None], None, None),
    "string": ("string", ["a", None], (list, ["a", None]), None),
    "binary": ("binary", [b"a", None], (list, [b"a", None]), None),
    "decimal": ("decimal(4,2)", [Decimal("1.50"), None], (list, [Decimal("1.50"), None]), None),
    "date": ("date", [dt.date(2020, 1, 1), None], (list, [dt.date(2020, 1, 1), None]), None),
    "array of int": (array_of("integer"), [[1, 2], None], None, None),
    "array of float": (array_of("float"), [[1, 2], None], None, None),
    "array of string": (array_of("string"), [["a"], None], (list, [["a"], None]), None),
    "element of int": (
        array_of("integer"),
        [[1, None], [3, 4]],
        (torch.float64, [[1, NAN], [3, 4]]),
        None,
    ),
    "element of float": (
        array_of("float"),
        [[1, None], [3, 4]],
        (torch.float32, [[1, NAN], [3, 4]]),
        (tf.float32, [[1, NAN], [3, 4]]),
    ),
    "element of boolean": (array_of("boolean"), [[True, None], [False, True]], None, None),
    "element of timestamp": (
        array_of("timestamp_ntz"),
        [[dt.datetime(2020, 1, 1)], [None]],
        None,
        None,
    ),
    "element of date": (
        array_of("date"),
        [[dt.date(2020, 1, 1)], [None]],
        (list, [[dt.date(2020, 1, 1)], [None]]),
        None,
    ),
}


def nulls(tmp_path: Path, name: str) -> SparkDatasetConverter:
    spark_type, values, *_ = NULLS[name]
    return converter_of(tmp_path / "nulls", {"v": values}, {"v": spark_type})


@pytest.mark.parametrize("name", NULLS)
def test_pytorch_and_nulls(tmp_path: Path, name: str) -> None:
    loader = nulls(tmp_path, name).make_torch_dataloader(decimals="decimal", **IN_ORDER)
    expected = NULLS[name][2]
    if expected is None:
        with pytest.raises(NullValueError, match="column 'v' holds 1 null, and PyTorch"):
            next(iter(loader))
        return
    (batch,) = loader
    values, (dtype, rows) = batch["v"], expected
    assert (values.dtype if isinstance(values, torch.Tensor) else type(values)) == dtype
    found = values.tolist() if isinstance(values, torch.Tensor) else values
    if dtype is not list:
        rows = torch.tensor(rows, dtype=dtype).tolist()
    assert repr(found) == repr(rows)


@pytest.mark.parametrize("name", NULLS)
def test_tensorflow_and_nulls(tmp_path: Path, name: str) -> None:
    converter = nulls(tmp_path, name)
    expected = NULLS[name][3]
    if expected is None:
        with pytest.raises(NullValueError, match="column 'v' holds 1 null, and TensorFlow"):
            converter.make_tf_dataset(decimals="decimal", **IN_ORDER)
        return
    ((values,),) = converter.make_tf_dataset(decimals="decimal", **IN_ORDER)
    dtype, rows = expected
    assert values.dtype == dtype
    assert repr(values.numpy().tolist()) == repr(tf.constant(rows, dtype).numpy().tolist())


@with_either
def test_the_error_says_what_to_do(tmp_path: Path, read: Read) -> None:
    converter = nulls(tmp_path, "boolean")
    with pytest.raises(NullValueError) as caught:
        read(converter, num_epochs=1)
    assert (caught.value.column, caught.value.null_count) == ("v", 1)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    for remedy in ("fill_nulls={'v': …}", "null_masks=['v']", "transform", "df.na.drop"):
        assert remedy in str(caught.value)


def test_the_error_comes_before_the_first_batch(tmp_path: Path) -> None:
    columns = {"v": [True] * 19_999 + [None]}
    converter = converter_of(tmp_path / "nulls", columns, {"v": "boolean"}, tasks=2)
    with pytest.raises(NullValueError, match="column 'v' holds 1 null"):
        next(iter(converter.make_torch_dataloader(batch_size=1, **IN_ORDER)))
    with pytest.raises(NullValueError, match="column 'v' holds 1 null"):
        converter.make_tf_dataset(batch_size=1)


def test_the_type_does_not_depend_on_where_the_nulls_are(tmp_path: Path) -> None:
    columns = {"v": [1, 2, 3, 4, None, 6]}
    converter = converter_of(tmp_path / "nulls", columns, {"v": "long"}, tasks=3)
    dtypes = {b["v"].dtype for b in converter.make_torch_dataloader(batch_size=2, num_epochs=1)}
    assert dtypes == {torch.float64}


@with_either
@pytest.mark.parametrize("pool", ["thread", "process"])
@pytest.mark.parametrize("how", ["predicate", "filters"])
def test_nulls_in_rows_that_are_left_out_do_not_matter(
    tmp_path: Path, read: Read, how: str, pool: str
) -> None:
    columns = {"id": [0, 1, 2], "v": [True, None, False]}
    converter = converter_of(tmp_path / "nulls", columns, {"id": "long", "v": "boolean"})
    left = {"predicate": in_lambda(["id"], lambda id: id != 1), "filters": [("id", "!=", 1)]}
    batches = read(converter, reader_pool_type=pool, **{how: left[how]}, **IN_ORDER)
    assert [list(batch["v"]) for batch in batches] == [[True, False]]
    left = {"predicate": in_lambda(["id"], lambda id: id > 0), "filters": [("id", ">", 0)]}
    with pytest.raises((NullValueError, tf.errors.OpError), match="column 'v' holds 1 null"):
        read(converter, reader_pool_type=pool, **{how: left[how]}, **IN_ORDER)


def test_booleans_keep_their_type_where_nulls_are_left_out(tmp_path: Path) -> None:
    columns = {"id": [0, 1], "v": [True, None]}
    converter = converter_of(tmp_path / "nulls", columns, {"id": "long", "v": "boolean"})
    (batch,) = converter.make_torch_dataloader(filters=[("id", "=", 0)], **IN_ORDER)
    assert batch["v"].dtype == torch.uint8


def test_columns_that_are_not_read_may_hold_nulls(tmp_path: Path) -> None:
    converter = converter_of(
        tmp_path / "nulls", {"v": [None], "w": [1]}, {"v": "boolean", "w": "long"}
    )
    (batch,) = converter.make_tf_dataset(num_epochs=1, schema_fields=["w"])
    assert batch.w.numpy().tolist() == [1]


@with_either
@pytest.mark.parametrize(
    ("name", "fill", "expected"),
    [
        ("boolean", True, [True, True]),
        ("byte", 7, [-1, 7]),
        ("long", -1, [-1, 1]),
        ("float", 0.5, [1.5, 0.5]),
        ("string", "none", ["a", "none"]),
        ("binary", b"none", [b"a", b"none"]),
        ("array of int", 0, [[1, 2], [0, 0]]),
        ("array of int", [8, 9], [[1, 2], [8, 9]]),
        ("array of string", ["x", "y"], [["a"], ["x", "y"]]),
        ("element of int", 0, [[1, 0], [3, 4]]),
        ("element of boolean", False, [[True, False], [False, True]]),
    ],
)
def test_fill_nulls(tmp_path: Path, read: Read, name: str, fill: Any, expected: list[Any]) -> None:
    (batch,) = read(nulls(tmp_path, name), fill_nulls={"v": fill}, **IN_ORDER)
    found = [row.tolist() if isinstance(row, torch.Tensor) else row for row in batch["v"]]
    plain = [_decoded(row) for row in found]
    assert plain == [_decoded(row) for row in expected]


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def test_filled_integers_stay_integers(tmp_path: Path) -> None:
    (batch,) = nulls(tmp_path, "long").make_torch_dataloader(fill_nulls={"v": 0}, **IN_ORDER)
    assert batch["v"].dtype == torch.int64


@with_either
def test_null_masks_add_a_column(tmp_path: Path, read: Read) -> None:
    columns = {"v": [1, None], "w": [None, 2.5]}
    converter = converter_of(tmp_path / "nulls", columns, {"v": "long", "w": "double"})
    (batch,) = read(converter, null_masks=["v", "w"], **IN_ORDER)
    assert list(batch) == ["v", "w", "v_is_null", "w_is_null"]
    assert batch["v"] == [1, 0]
    assert math.isnan(batch["w"][0])
    assert (batch["v_is_null"], batch["w_is_null"]) == ([False, True], [True, False])


@with_either
def test_a_mask_and_a_fill_go_together(tmp_path: Path, read: Read) -> None:
    converter = nulls(tmp_path, "boolean")
    (batch,) = read(converter, null_masks=["v"], fill_nulls={"v": True}, **IN_ORDER)
    assert batch == {"v": [True, True], "v_is_null": [False, True]}


@pytest.mark.parametrize("arguments", [{"fill_nulls": {"x": 0}}, {"null_masks": ["x"]}], ids=str)
@with_either
def test_unknown_columns_are_refused(tmp_path: Path, read: Read, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentTypeError, match=r"name columns \['x'\] that are not read"):
        read(nulls(tmp_path, "long"), num_epochs=1, **arguments)


@with_either
@pytest.mark.parametrize(
    ("name", "fill"),
    [("byte", 300), ("long", "x"), ("boolean", 2), ("array of int", "x"), ("element of int", [1])],
)
def test_a_fill_that_the_column_cannot_hold_is_refused(
    tmp_path: Path, read: Read, name: str, fill: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="fill_nulls gives"):
        read(nulls(tmp_path, name), num_epochs=1, fill_nulls={"v": fill})


@with_either
@pytest.mark.parametrize("name", ["boolean", "long", "string", "array of int"])
def test_a_transform_may_fill_the_nulls(tmp_path: Path, read: Read, name: str) -> None:
    first, second = NULLS[name][1]
    present = second if first is None else first

    def fill(frame: Any) -> Any:
        cells = [present if _is_null(cell) else cell for cell in frame["v"]]
        frame["v"] = cells
        return frame

    (batch,) = read(nulls(tmp_path, name), transform_spec=TransformSpec(fill), **IN_ORDER)
    assert [_decoded(row) for row in batch["v"]] == [present, present]


def _is_null(cell: Any) -> bool:
    return cell is None or cell != cell if not hasattr(cell, "__len__") else False


@with_either
@pytest.mark.parametrize("name", ["boolean", "timestamp_ntz", "array of int"])
def test_a_transform_that_leaves_nulls_is_an_error_at_the_first_batch(
    tmp_path: Path, read: Read, name: str
) -> None:
    with pytest.raises((NullValueError, tf.errors.OpError), match="column 'v' holds 1 null"):
        read(nulls(tmp_path, name), transform_spec=TransformSpec(lambda f: f), num_epochs=1)


@pytest.mark.parametrize("name", ["byte", "boolean", "string"])
def test_a_transform_sees_what_petastorm_shows_it(tmp_path: Path, name: str) -> None:
    seen = []
    spec = TransformSpec(lambda frame: seen.append(frame.copy()) or frame.dropna())
    list(nulls(tmp_path, name).make_torch_dataloader(num_epochs=1, transform_spec=spec))
    (frame,) = seen
    expected = {"byte": [-1.0, NAN], "boolean": [True, None], "string": ["a", None]}[name]
    assert repr(frame["v"].tolist()) == repr(expected)
