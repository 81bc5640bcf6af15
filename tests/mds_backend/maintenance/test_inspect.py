import json
from pathlib import Path

import pytest
from tests.mds_backend.maintenance.damage import FIELDS, GOLDEN, GOLDEN_NAMES, ROWS
from tests.mds_backend.small_datasets import array_of, write_dataset, write_numbers

from mdstorm_backend.maintenance.inspect import Inspection, inspect


def check_json(found: Inspection) -> None:
    assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()


@pytest.mark.parametrize("compression", [None, "zstd:1"])
def test_the_index_is_described(compression: str | None, tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 500, compression=compression)
    found = inspect(str(tmp_path))
    shards = dataset.index.shards
    assert (found.url, found.rows, found.shards) == (dataset.url, 500, len(shards))
    assert found.shard_rows.total == 500
    assert found.shard_bytes.total == dataset.nbytes
    stored = sum(file.stat().st_size for file in tmp_path.glob("*.mds*"))
    assert found.stored_bytes.total == stored
    assert found.compressions == {compression or "none": len(shards)}
    assert found.hashes == {"none": len(shards)}
    assert found.fingerprint == dataset.fingerprint
    assert found.logical_schema
    (column,) = found.columns
    assert (column.name, column.encodings) == ("number", {"int64": len(shards)})
    assert (column.spark_type, column.nullable) == ("long", True)
    check_json(found)


def test_nulls_are_counted_and_types_named(tmp_path: Path) -> None:
    write_dataset(tmp_path, ROWS, FIELDS)
    columns = {column.name: column for column in inspect(str(tmp_path)).columns}
    assert list(columns) == list(FIELDS)
    assert columns["list"].spark_type == "array<long>"
    assert (columns["list"].null_count, columns["list"].element_null_count) == (1, 1)
    assert columns["text"].null_count == 1


def test_forms_of_arrays_are_told_apart(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"a": [[1], [2], [3], [4, 5]]}, {"a": array_of("long")}, tasks=2)
    (column,) = inspect(str(tmp_path)).columns
    assert column.encodings == {"ndarray:int64:1": 1, "ndarray:int64": 1}


@pytest.mark.parametrize("directory", GOLDEN_NAMES)
def test_every_dataset_of_the_formats_own_library_is_described(directory: str) -> None:
    found = inspect(str(GOLDEN / directory))
    check_json(found)
    assert not found.logical_schema
    assert found.rows == found.shard_rows.total
