"""Value types in batches and rows, and decimals converted to floats."""

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import torch
from tests.kit.readers import batch_reader, row_reader, write_parquet

from mdstorm import TransformSpec, convert, make_batch_reader
from mdstorm.errors import UnsupportedTypeError
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm_backend import MDSWriter

D = Decimal
DAY = dt.date(2020, 1, 2)
TIME = dt.datetime(2020, 1, 2, 3, 4, 5, 6)


def batch_of(directory: Path, array: pa.Array) -> Any:
    with batch_reader(write_parquet(directory, {"c": array})) as reader:
        (batch,) = reader
    return batch.c


def rows_of(directory: Path, array: pa.Array) -> list[Any]:
    with row_reader(write_parquet(directory, {"c": array})) as reader:
        return [row.c for row in reader]


def objects(*values: Any) -> Any:
    return np.fromiter(values, object, len(values))


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([b"a\0", None], pa.binary(), objects(b"a\0", None)),
        ([[DAY], [DAY]], pa.list_(pa.date32()), np.array([[DAY], [DAY]], object)),
        ([[TIME], [None]], pa.list_(pa.timestamp("us")), np.array([[TIME], ["NaT"]], "M8[ns]")),
        (
            [[True, None], [False, True]],
            pa.list_(pa.bool_()),
            np.array([[True, None], [False, True]], object),
        ),
    ],
    ids=str,
)
def test_batch_columns_have_petastorms_types(
    tmp_path: Path, values: Any, type_: Any, expected: Any
) -> None:
    """Other types are tested in tests/contract/conformance/programs/types.py."""
    found = batch_of(tmp_path, pa.array(values, type_))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("unit", "far"), [("us", "1066-10-14"), ("ms", "9999-12-31")])
def test_timestamp_outside_nanosecond_range_raises_value_error(
    tmp_path: Path, unit: str, far: str
) -> None:
    times = pa.array([dt.datetime(2000, 1, 1), dt.datetime.fromisoformat(far)], pa.timestamp(unit))
    pq.write_table(pa.table({"n": [1, 2], "valid_to": times}), tmp_path / "a.parquet")
    url = f"file://{tmp_path}"
    error = pytest.raises(ValueError, match="would result in out of bounds timestamp")
    with make_batch_reader(url) as reader, error:
        next(reader)
    with make_batch_reader(url, schema_fields=["n"]) as reader:
        assert next(reader).n.tolist() == [1, 2]
    with make_batch_reader(url, filters=[("valid_to", "=", dt.datetime(2000, 1, 1))]) as reader:
        assert next(reader).n.tolist() == [1]


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([True, None], pa.bool_(), [np.bool_(True), None]),
        ([1, None], pa.int8(), [np.int8(1), None]),
        ([1, 2], pa.int64(), [np.int64(1), np.int64(2)]),
        ([1.5, None], pa.float32(), [np.float32(1.5), np.float32(NAN)]),
        (["a\0", None], pa.string(), [np.str_("a\0"), None]),
        ([b"a\0", None], pa.binary(), [np.bytes_(b"a\0"), None]),
        ([D("1.50"), None], pa.decimal128(6, 2), [D("1.50"), None]),
        ([DAY, None], pa.date32(), [np.datetime64(DAY, "D"), None]),
        ([TIME, None], pa.timestamp("us"), [np.datetime64(TIME, "us"), None]),
    ],
    ids=str,
)
def test_row_scalars_have_petastorms_types(
    tmp_path: Path, values: Any, type_: Any, expected: list[Any]
) -> None:
    found = rows_of(tmp_path, pa.array(values, type_))
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert repr(found) == repr(expected)


def test_row_arrays_have_petastorms_types(tmp_path: Path) -> None:
    first, second, third = rows_of(tmp_path, pa.array([[1, 2], [3], None], pa.list_(pa.int16())))
    assert (first.dtype, first.tolist(), second.tolist()) == (np.int16, [1, 2], [3])
    assert third is None


def test_row_string_arrays_have_petastorms_types(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, pa.array([["a", None]]))
    assert (row.dtype, row.tolist()) == (object, ["a", None])


PRICES = [Decimal("0.10"), None, Decimal("2.25"), Decimal("-3.00")]
NUMBERS = [0.1, math.nan, 2.25, -3.0]
WARNING = "column 'price' of file:///.* holds decimals, which reach {} as {}, and no"


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    columns = {
        "id": range(4),
        "price": pa.array(PRICES, pa.decimal128(10, 2)),
        "pair": pa.array([[Decimal(i), None] for i in range(4)], pa.list_(pa.decimal128(5, 2))),
    }
    return write_parquet(tmp_path / "parquet", columns, row_group_size=2)


@pytest.fixture(params=["parquet", "mds"])
def url(request: Any, parquet: str, tmp_path: Path) -> str:
    """URL of a dataset with decimals, either as Parquet or converted to MDS."""
    if request.param == "parquet":
        return parquet
    return str(convert(parquet, f"file://{tmp_path}/mds").url)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_decimals_argument_casts_scalars_and_arrays_in_batches(url: str, dtype: str) -> None:
    found = list(batch_reader(url, decimals=dtype))
    price = np.concatenate([batch.price for batch in found])
    pair = np.concatenate([batch.pair for batch in found])
    assert price.dtype == pair.dtype == dtype
    np.testing.assert_array_equal(price, np.array(NUMBERS, dtype))
    np.testing.assert_array_equal(pair, np.array([[i, math.nan] for i in range(4)], dtype))


def test_decimals_have_same_type_in_rows_and_schema(url: str) -> None:
    reader = row_reader(url, decimals="float64", schema_fields=["id", "price"])
    assert reader.schema.fields["price"].numpy_dtype is np.float64
    rows = list(reader)
    assert rows[0].price == 0.1
    assert isinstance(rows[0].price, np.float64)


@pytest.mark.parametrize("decimals", [None, "decimal"])
def test_readers_return_decimals_unchanged_without_a_warning(url: str, decimals: Any) -> None:
    reader = batch_reader(url, schema_fields=["price"], decimals=decimals)
    assert [value for batch in reader for value in batch.price] == PRICES
    assert reader.schema.fields["price"].numpy_dtype is Decimal


def test_decimal_arrays_are_omitted_with_a_warning_that_names_the_remedy(url: str) -> None:
    with pytest.warns(UserWarning, match='to read it, or pass decimals="float64" for arrays of'):
        batch_reader(url)


def test_filters_predicates_and_functions_receive_converted_decimals(url: str) -> None:
    seen: list[Any] = []

    def look(frame: Any) -> Any:
        seen.append(frame["price"].dtype)
        return frame

    options: dict[str, Any] = {"decimals": "float64", "schema_fields": ["id", "price"]}
    ids = [
        [i for batch in batch_reader(url, **given, **options) for i in batch.id]
        for given in (
            {"filters": [("price", "=", 0.1)]},
            {"predicate": in_lambda(["price"], lambda price: bool(price < 1))},
            {"transform_spec": TransformSpec(look)},
        )
    ]
    assert ids == [[0], [0, 3], [0, 1, 2, 3]]
    assert set(seen) == {np.dtype(np.float64)}


def test_row_loader_warns_once_about_decimals(url: str) -> None:
    options: dict[str, Any] = {"schema_fields": ["id", "price"]}
    expected = WARNING.format("PyTorch", "a list of Decimal")
    with pytest.warns(UserWarning, match=expected) as caught:
        batches = list(DataLoader(batch_reader(url, **options), 4))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert batches[0]["price"] == PRICES
    DataLoader(batch_reader(url, **options), 4)  # a second warning would be an error


def test_tensorflow_warns_that_decimals_are_strings(parquet: str) -> None:
    expected = WARNING.format("TensorFlow", "text")
    with pytest.warns(UserWarning, match=expected):
        make_petastorm_dataset(
            batch_reader(parquet, schema_fields=["price"], fill_nulls={"price": 0})
        )
    reader = batch_reader(parquet, schema_fields=["id", "price"], decimals="float32")
    assert make_petastorm_dataset(reader).element_spec.price.dtype == tf.float32


@pytest.mark.parametrize(
    "options",
    [
        {"schema_fields": ["id"]},
        {"schema_fields": ["id", "price"], "decimals": "decimal"},
        {"schema_fields": ["id", "price"], "decimals": "float64"},
        {
            "schema_fields": ["id", "price"],
            "transform_spec": TransformSpec(lambda frame: frame.astype({"price": "float32"})),
        },
    ],
    ids=["not read", "decimal", "float64", "a function"],
)
def test_explicit_decimal_type_does_not_warn(parquet: str, options: dict[str, Any]) -> None:
    assert (
        len(list(DataLoader(batch_reader(parquet, **options), 4))) == 1
    )  # a warning would be an error


def test_tensor_loader_error_names_the_remedy_for_decimals(parquet: str) -> None:
    options: dict[str, Any] = {"schema_fields": ["id", "price"]}
    with pytest.raises(UnsupportedTypeError, match='pass decimals="float64" to the reader'):
        list(BatchedDataLoader(batch_reader(parquet, **options), 4))
    (batch,) = BatchedDataLoader(batch_reader(parquet, decimals="float64", **options), 4)
    assert batch["price"].dtype == torch.float64


def test_transform_returns_integers_over_64_bits_as_python_integers(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path), columns={"n": "str_int"}) as writer:
        for number in (1 << 80, -5):
            writer.write({"n": number})
    twice = TransformSpec(lambda frame: frame.assign(n=frame["n"] * 2))
    with batch_reader(f"file://{tmp_path}", transform_spec=twice) as reader:
        (batch,) = reader
    assert batch.n.tolist() == [1 << 81, -10]
