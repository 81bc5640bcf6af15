"""Column types that `make_batch_reader` returns."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from petastorm import make_batch_reader
from tests.contract.conformance.describing import describe, error_of, warnings_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM, batches

#: Values and type of each column, by column name.
_COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "booleans": ([True, False], pa.bool_()),
    "booleans_with_nulls": ([True, None, False], pa.bool_()),
    "large_integers": ([2**53 + 1, -(2**63)], pa.int64()),
    "integers_that_are_all_null": ([None, None], pa.int64()),
    "decimals": ([Decimal("4.50"), Decimal("-0.01")], pa.decimal128(10, 2)),
    "decimals_with_nulls": ([Decimal("4.5"), None], pa.decimal128(38, 1)),
    "strings": (["a", "", "näme", "in\0side"], pa.string()),
    "binaries": ([b"\0\xff", b"", b"a\0"], pa.binary()),
    "binaries_with_nulls": ([b"a", None], pa.binary()),
    "dates_with_nulls": ([datetime.date(2020, 2, 29), None], pa.date32()),
    "timestamps_with_nulls": ([datetime.datetime(2020, 1, 1), None], pa.timestamp("us")),
    "lists_of_booleans": ([[True, False], [False, False]], pa.list_(pa.bool_())),
    "lists_of_strings": ([["a", "bc"], ["", "d"]], pa.list_(pa.string())),
    "lists_of_times": ([[datetime.datetime(2020, 1, 1)] * 2], pa.list_(pa.timestamp("ns"))),
}


def _column(place: Place, values: Any, type_: Any, **arguments: Any) -> Any:
    """Write a column of these values; return its type and shape in the schema, and its batches."""
    url = place.parquet({"c": pa.array(values, type_)}, **arguments)
    with make_batch_reader(url, **CALM) as reader:
        field = reader.schema.fields["c"]
        return [field.numpy_dtype, list(field.shape), [batch.c for batch in reader]]


def columns(place: Place) -> Any:
    return {name: _column(place, *column) for name, column in _COLUMNS.items()}


def integers(place: Place) -> Any:
    types = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8()]
    return [_column(place, [0, 1, 127], type_) for type_ in types]


def integers_with_nulls(place: Place) -> Any:
    types = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    return [_column(place, [1, None, 3], type_) for type_ in types]


def integers_with_nulls_in_one_row_group(place: Place) -> Any:
    return _column(place, [1, 2, None, 4], pa.int32(), group=2)


def unsigned_integers_are_left_out(place: Place) -> Any:
    columns = {"id": pa.array([1]), "u": pa.array([1], pa.uint32())}
    url = place.parquet(columns)
    return [batches(url), warnings_of(lambda: batches(url), "Ignoring...")]


def floats(place: Place) -> Any:
    values = [0.0, -1.5, float("inf"), float("nan")]
    return [_column(place, values, type_) for type_ in (pa.float32(), pa.float64())]


def floats_with_nulls(place: Place) -> Any:
    return [_column(place, [1.5, None], type_) for type_ in (pa.float32(), pa.float64())]


def strings_with_nulls(place: Place) -> Any:
    return _column(place, ["a", None], pa.string())


def strings_that_end_with_nul(place: Place) -> Any:
    return _column(place, ["a\0", "b"], pa.string())


def dates(place: Place) -> Any:
    days = [datetime.date(2020, 2, 29), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)]
    return _column(place, days, pa.date32())


def timestamps(place: Place) -> Any:
    times = [datetime.datetime(2020, 1, 1, 12, 30, 15, 250), datetime.datetime(1969, 12, 31)]
    types = [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ms")]
    return [_column(place, times, type_) for type_ in types]


def lists_of_one_length(place: Place) -> Any:
    types = [pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
    return [_column(place, [[0, 1], [1, 0]], pa.list_(type_)) for type_ in types]


def lists_of_no_and_of_one_element(place: Place) -> Any:
    type_ = pa.list_(pa.int32())
    return [_column(place, values, type_) for values in ([[], []], [[1], [2]])]


def lists_of_several_lengths(place: Place) -> Any:
    url = place.parquet({"c": pa.array([[1, 2], [3], [4, 5, 6]])})
    return error_of(
        lambda: batches(url), "Length of all values in column 'c' are expected to be the same"
    )


def lists_of_one_length_per_row_group(place: Place) -> Any:
    return _column(place, [[1, 2], [3, 4], [5], [6]], pa.list_(pa.int64()), group=2)


def lists_with_null_elements(place: Place) -> Any:
    types = [pa.int32(), pa.float32()]
    return [_column(place, [[1, None], [0, 1]], pa.list_(type_)) for type_ in types]


def null_lists(place: Place) -> Any:
    url = place.parquet({"c": pa.array([[1, 2], None, [3, 4]])})
    return error_of(lambda: batches(url), "'NoneType' object has no attribute 'shape'")


def nested_columns_are_left_out(place: Place) -> Any:
    columns = {
        "id": pa.array([1]),
        "s": pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
        "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "l": pa.array([[[1], [2]]], pa.list_(pa.list_(pa.int32()))),
    }
    url = place.parquet(columns)
    says = ["Column 's' has an unsupported field", "[ARROW-1644] Ignoring unsupported structure"]
    return [batches(url), warnings_of(lambda: batches(url), *says)]


def only_nested_columns(place: Place) -> Any:
    url = place.parquet({"s": pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))})
    return error_of(
        lambda: batches(url), "No fields matching the criteria 'None' were found in the dataset"
    )


def nullable_fields_are_declared(place: Place) -> Any:
    schema = pa.schema([pa.field("must", pa.int64(), False), pa.field("may", pa.int64(), True)])
    url = place.parquet(dict(pa.table({"must": [1], "may": [2]}).to_pydict()))
    table = pa.table({"must": [1], "may": [2]}, schema=schema)
    pa.parquet.write_table(table, place.folder / "data" / "part-0.parquet")
    with make_batch_reader(url, **CALM) as reader:
        return {name: field.nullable for name, field in reader.schema.fields.items()}


def three_hundred_columns(place: Place) -> Any:
    url = place.parquet({f"c{i}": np.array([i]) for i in range(300)})
    (batch,) = batches(url)
    return [len(batch._fields), batch._fields[299], batch.c299]


def missing_columns_of_some_files(place: Place) -> Any:
    place.parquet({"id": [1], "x": [2.0]}, name="data/a.parquet")
    place.parquet({"id": [2]}, name="data/b.parquet")
    outcome = error_of(lambda: describe(batches(place.url("data"))))
    return outcome.get("raises", outcome) != []
