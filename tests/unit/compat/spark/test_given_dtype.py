"""`dtype=` for data read in place: Parquet files and MDS datasets."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.kit.readers import write_parquet
from tests.kit.small_datasets import write_dataset
from tests.unit.compat.spark.converters import IN_ORDER, Read, with_either

from mdstorm.errors import InvalidArgumentError
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset

COLUMNS = {
    "id": range(4),
    "x": [0.1, 1e300, 2.5, -1.0],
    "gaps": [0.1, None, 2.5, None],
    "arrays": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]],
    "ragged": [[0.1], [], [0.2, 0.3], [0.4]],
    "with_null": [[0.1, None], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]],
    "matrices": [[[0.1, 0.2]], [[0.3, 0.4]], [[0.5, 0.6]], [[0.7, 0.8]]],
    "uneven": [[[0.1], [0.2, 0.3]], [[]], [[0.4]], [[0.5, 0.6]]],
}
ARRAY = {"type": "array", "elementType": "double", "containsNull": True}
NESTED = {**ARRAY, "elementType": ARRAY}
FIELDS: dict[str, Any] = {
    "id": "long",
    "x": "double",
    "gaps": "double",
    "arrays": ARRAY,
    "ragged": ARRAY,
    "with_null": ARRAY,
    "matrices": NESTED,
    "uneven": NESTED,
}
FLOATS = list(COLUMNS)[1:]
#: Arguments for one pass over a numeric column and an array column.
PLAIN: dict[str, Any] = {**IN_ORDER, "schema_fields": ["x", "arrays"]}


def in_parquet(directory: Path) -> str:
    return write_parquet(directory, COLUMNS)


def in_mds(directory: Path) -> str:
    return write_dataset(directory, COLUMNS, FIELDS, dtype=None).url


with_both = pytest.mark.parametrize("write", [in_parquet, in_mds], ids=["parquet", "mds"])


def all_dtypes(value: Any) -> set[Any]:
    """Return the dtypes of a tensor or of all tensors in nested lists."""
    if isinstance(value, list):
        return {dtype for one in value for dtype in all_dtypes(one)}
    return {value.dtype}


def as_lists(value: Any) -> Any:
    return [as_lists(one) for one in value] if isinstance(value, list) else value.tolist()


def rounded(value: Any) -> Any:
    """Round numbers to float32 and replace nulls with NaN."""
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float("nan") if value is None else torch.tensor(value).to(torch.float32).item()


@with_both
def test_dtype_for_in_place_data_applies_in_torch(
    tmp_path: Path, write: Callable[[Path], str]
) -> None:
    converter = make_spark_converter(write(tmp_path / "data"), dtype="float32")
    (batch,) = converter.make_torch_dataloader(schema_fields=list(COLUMNS), **IN_ORDER)
    assert {name: all_dtypes(batch[name]) for name in COLUMNS} == {
        "id": {torch.int64},
        **{name: {torch.float32} for name in FLOATS},
    }
    for name in FLOATS:
        expected, found = rounded(COLUMNS[name]), as_lists(batch[name])
        assert repr(found) == repr(expected), name


@with_both
def test_default_dtype_keeps_stored_types_of_in_place_data(
    tmp_path: Path, write: Callable[[Path], str]
) -> None:
    """Petastorm's default is "float32", which it ignores for files."""
    url = write(tmp_path / "data")
    for arguments in ({}, {"dtype": None}, {"dtype": "float64"}):
        (batch,) = make_spark_converter(url, **arguments).make_torch_dataloader(**PLAIN)  # type: ignore[arg-type]
        assert batch["x"].dtype == torch.float64
        assert batch["x"].tolist() == COLUMNS["x"]


def test_dtype_for_in_place_data_widens_floats(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"x": pa.array([0.1, None], pa.float32())})
    (batch,) = make_spark_converter(url, dtype="float64").make_torch_dataloader(**IN_ORDER)
    assert batch["x"].dtype == torch.float64
    assert batch["x"][0] == float(np.float32(0.1))


def test_dtype_for_in_place_data_survives_pickling(tmp_path: Path) -> None:
    converter = make_spark_converter(in_parquet(tmp_path), dtype="float32")
    again = pickle.loads(pickle.dumps(converter))  # noqa: S301
    (batch,) = again.make_torch_dataloader(**PLAIN)
    assert batch["x"].dtype == torch.float32


def test_dtype_for_in_place_data_reaches_data_loader_fn(tmp_path: Path) -> None:
    converter = make_spark_converter(in_parquet(tmp_path), dtype="float32")

    def make(reader: Any, **_: Any) -> Any:
        return [next(reader)]

    with converter.make_torch_dataloader(data_loader_fn=make, **PLAIN) as (batch,):  # type: ignore[misc]
        assert batch.x.dtype == np.float32


def test_loader_dtype_takes_precedence_over_converter_dtype(tmp_path: Path) -> None:
    converter = make_spark_converter(in_parquet(tmp_path), dtype="float32")
    (batch,) = converter.make_torch_dataloader(dtype="float64", **PLAIN)
    assert batch["x"].dtype == torch.float64
    with pytest.raises(InvalidArgumentError, match="dtype half is not supported"):
        converter.make_torch_dataloader(dtype="half", **PLAIN)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [make_reader, make_batch_reader])
@pytest.mark.filterwarnings("ignore:Currently make_reader supports")
def test_reader_dtype_applies_to_schema_and_rows(tmp_path: Path, make: Any) -> None:
    with make(in_parquet(tmp_path), PLAIN["schema_fields"], dtype="float32") as reader:
        assert reader.schema.fields["x"].numpy_dtype == np.float32
        row = next(reader)
    assert np.asarray(row.x).dtype == np.float32
    assert np.asarray(row.arrays).dtype == np.float32


@with_either
def test_filters_compare_values_in_given_dtype(tmp_path: Path, read: Read) -> None:
    """Row group statistics describe the values before the cast."""
    url = write_parquet(tmp_path, {"x": [0.1, 0.2]}, row_group_size=1)
    converter = make_spark_converter(url, dtype="float32")
    condition = [("x", ">", 0.1)]  # float32(0.1) is greater than 0.1
    batches = read(converter, filters=condition, schema_fields=["x"], **IN_ORDER)
    found = [x for batch in batches for x in batch["x"]]
    (whole,) = read(converter, schema_fields=["x"], **IN_ORDER)
    assert found == [x for x in whole["x"] if x > 0.1]


@with_either
def test_nulls_are_filled_and_masked_with_given_dtype(tmp_path: Path, read: Read) -> None:
    converter = make_spark_converter(in_parquet(tmp_path), dtype="float32")
    fields = ["gaps", "with_null"]
    (batch,) = read(
        converter,
        schema_fields=fields,
        fill_nulls={"gaps": 7, "with_null": 9},
        null_masks=["gaps"],
        **IN_ORDER,
    )
    assert batch["gaps"] == [rounded(0.1), 7, 2.5, 7]
    assert batch["gaps_is_null"] == [0, 1, 0, 1]
    assert batch["with_null"][0] == [rounded(0.1), 9]


def test_in_place_data_with_dtype_equals_converted_copy(tmp_path: Path) -> None:
    """Values read in place have the same bits as values stored by a conversion."""
    copy = write_dataset(tmp_path / "copy", COLUMNS, FIELDS, dtype="float32")
    converter = make_spark_converter(in_parquet(tmp_path / "data"), dtype="float32")
    fields = [name for name in COLUMNS if name != "uneven"]
    (in_place,) = converter.make_torch_dataloader(schema_fields=fields, **IN_ORDER)
    (copied,) = make_spark_converter(copy.url).make_torch_dataloader(
        schema_fields=fields, **IN_ORDER
    )
    assert repr(in_place) == repr(copied)
    assert open_dataset(copy.url).schema["x"].encoding == "float32"
