"""`fill_nulls` gives array columns the same values in files read in place as in copies."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf
from tests.kit.readers import write_parquet
from tests.kit.small_datasets import array_of
from tests.unit.compat.spark.converters import IN_ORDER, Read, converter_of, with_either

from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm.reader import make_batch_reader
from mdstorm.spark import make_spark_converter

FLAT, NESTED = array_of("double"), array_of(array_of("double"))
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "first": (FLAT, [None, [1.0, 2.0, 3.0]]),
    "elements": (FLAT, [[1.0, None], None]),
    "ragged": (FLAT, [[1.0], None, [2.0, 3.0]]),
    "empty": (FLAT, [[], None]),
    "nested": (NESTED, [None, [[1.0, 2.0], [3.0, 4.0]]]),
}


def as_lists(batch: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [getattr(value, "tolist", lambda v=value: v)() for value in values]
        for name, values in batch.items()
    }


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize(
    "options",
    [{"fill_nulls": {"m": 0}}, pytest.param({"null_masks": ["m"]}, marks=pytest.mark.long)],
    ids=["fill", "mask"],
)
@pytest.mark.parametrize(
    ("name", "row_group_size"),
    # Arrays whose lengths differ from those in the first row group raise an error: see below.
    [(name, size) for name in COLUMNS for size in (1, 10) if (name, size) != ("ragged", 1)],
)
def test_null_arrays_in_place_are_filled_as_in_a_copy(
    tmp_path: Path, read: Read, name: str, options: Any, row_group_size: int
) -> None:
    type_, values = COLUMNS[name]
    copy = converter_of(tmp_path / "copy", {"m": values}, {"m": type_}, dtype=None)
    arrays = pa.array(values, pa.list_(pa.float64()) if name == "empty" else None)
    url = write_parquet(tmp_path / "data", {"m": arrays}, row_group_size=row_group_size)
    in_place = make_spark_converter(url)
    found = [
        read(converter, schema_fields=["m"], **options, **IN_ORDER)
        for converter in (in_place, copy)
    ]
    if name == "empty":  # the length is unknown, so values may be tensors or lists
        found = [[as_lists(batch) for batch in batches] for batches in found]
    assert repr(found[0]) == repr(found[1])


@with_either
def test_array_length_different_from_first_row_group_raises_error(
    tmp_path: Path, read: Read
) -> None:
    """Nulls may already be filled to match the first array, so the error cannot name a row."""
    url = write_parquet(tmp_path, {"m": [[1.0, 2.0], None, [3.0]]}, row_group_size=1)
    with pytest.raises((InvalidArgumentError, tf.errors.OpError), match=r"'m' .*\(2,\).*convert"):
        read(make_spark_converter(url), fill_nulls={"m": 0}, **{**IN_ORDER, "batch_size": 1})


def test_fill_nulls_for_unread_column_raises_error_that_names_schema_fields(
    tmp_path: Path,
) -> None:
    url = write_parquet(tmp_path, {"id": [1, 2], "m": [None, [[1.0]]]})
    for options in ({"fill_nulls": {"m": 0}}, {"null_masks": ["m"]}):
        with pytest.raises(ArgumentTypeError, match=r"\['m'\].*schema_fields"):
            next(make_batch_reader(url, schema_fields=["id"], **options))  # type: ignore[arg-type]
