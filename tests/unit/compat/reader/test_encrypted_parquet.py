"""Encrypted Parquet is never called corrupt, and the columns that are not encrypted are read."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.delta_tables import OLD_PROTOCOL, add, commit, field, metadata
from tests.kit.encrypted_parquet import write_encrypted
from tests.kit.readers import batch_reader

from mdstorm import convert
from mdstorm.errors import (
    InvalidArgumentError,
    NoMatchingFieldsError,
    UnsupportedTableError,
    UnsupportedTypeError,
)
from mdstorm.predicates import in_lambda
from mdstorm.spark import make_spark_converter

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "name": ["a", None, "c", "d"],
        "tags": [["x"], [], None, ["y", "z"]],
        "place": [{"x": 1, "y": 2}, None, {"x": None, "y": 4}, {"x": 5, "y": 6}],
        "price": [0.5, None, 1.5, 2.5],
    }
)
NAMES = ROWS.column_names
#: Encrypted leaves → the column that is left out, and its type.
ENCRYPTED = {
    "name": ("name", "string"),
    "tags.list.element": ("tags", "list<element: string>"),
    "place.y": ("place", "struct<x: int64, y: int64>"),
    "price": ("price", "double"),
}

ignore_warnings = pytest.mark.filterwarnings("ignore:Column .*encrypted:UserWarning")


def read(url: str, **options: Any) -> dict[str, list[Any]]:
    """Return all values by column."""
    found: dict[str, list[Any]] = {}
    with batch_reader(url, num_epochs=1, **options) as reader:
        for batch in reader:
            for name, values in batch._asdict().items():
                found.setdefault(name, []).extend(values.tolist())
    return found


#: pyarrow 14 asks for a key as well to read some columns beside encrypted text.
NEEDS_NEWER_PYARROW = ("name", "tags.list.element")


@pytest.mark.parametrize(
    "leaf",
    [
        pytest.param(leaf, marks=[pytest.mark.newest] if leaf in NEEDS_NEWER_PYARROW else [])
        for leaf in ENCRYPTED
    ],
)
def test_encrypted_column_is_left_out_and_other_columns_are_read(leaf: str, tmp_path: Path) -> None:
    write_encrypted(tmp_path / "a.parquet", ROWS, [leaf], row_group_size=3)
    column, type_ = ENCRYPTED[leaf]
    named = re.escape(f"Column {column!r} has an unsupported field of type {type_} (encrypted)")
    with pytest.warns(UserWarning, match=named):
        found = read(f"file://{tmp_path}", schema_fields=NAMES)
    assert list(found) == [name for name in NAMES if name != column]
    assert {len(values) for values in found.values()} == {4}
    assert found["id"] == [1, 2, 3, 4]


@ignore_warnings
def test_filters_read_row_groups_by_the_statistics_of_other_columns(tmp_path: Path) -> None:
    write_encrypted(tmp_path / "a.parquet", ROWS, ["name"], row_group_size=2)
    found = read(f"file://{tmp_path}", schema_fields=["id"], filters=[("id", ">", 3)])
    assert found == {"id": [4]}


@pytest.mark.parametrize("encrypted", range(3))
def test_column_that_one_of_several_files_encrypts_is_left_out(
    encrypted: int, tmp_path: Path
) -> None:
    for number in range(3):
        path = tmp_path / f"{number}.parquet"
        if number == encrypted:
            write_encrypted(path, ROWS, ["name"])
        else:
            pq.write_table(ROWS, path)
    with pytest.warns(UserWarning, match=r"Column 'name' .* string \(encrypted\)"):
        found = read(f"file://{tmp_path}", schema_fields=["id", "name"])
    assert found == {"id": [1, 2, 3, 4] * 3}


@pytest.mark.parametrize("number", range(3))
def test_encrypted_footer_raises_error_that_names_the_file_and_encryption(
    number: int, tmp_path: Path
) -> None:
    for name in "012":
        pq.write_table(ROWS, tmp_path / f"{name}.parquet")
    write_encrypted(tmp_path / f"{number}.parquet", ROWS, ["name"], plaintext_footer=False)
    named = rf"/{number}\.parquet is an encrypted Parquet file.*mdstorm has no keys.*Spark"
    with pytest.raises(UnsupportedTableError, match=named) as caught:
        batch_reader(f"file://{tmp_path}", on_corrupt="skip")
    assert caught.value.url.endswith(f"/{number}.parquet")


@ignore_warnings
@pytest.mark.parametrize(
    ("error", "options"),
    [
        (NoMatchingFieldsError, {"schema_fields": ["name"]}),
        (InvalidArgumentError, {"filters": [("name", "=", "a")]}),
        (InvalidArgumentError, {"predicate": in_lambda(["name"], lambda name: name == "a")}),
    ],
    ids=["schema_fields", "filters", "predicate"],
)
def test_argument_that_names_encrypted_column_raises_error_with_the_reason(
    error: type[Exception], options: dict[str, Any], tmp_path: Path
) -> None:
    write_encrypted(tmp_path / "a.parquet", ROWS.select(["id", "name"]), ["name"])
    with pytest.raises(error, match=r"'name' of type string \(encrypted\), which cannot be read"):
        batch_reader(f"file://{tmp_path}", **options)


@ignore_warnings
def test_convert_of_encrypted_column_raises_error_before_writing(tmp_path: Path) -> None:
    (source := tmp_path / "in").mkdir()
    write_encrypted(source / "a.parquet", ROWS, ["name"])
    with pytest.raises(UnsupportedTypeError, match=r"'name'.*string \(encrypted\)"):
        convert(f"file://{source}", f"file://{tmp_path}/out")
    assert not (tmp_path / "out").exists()
    dataset = convert(f"file://{source}", f"file://{tmp_path}/out", columns=["id"])
    assert [sample["id"] for sample in dataset] == [1, 2, 3, 4]


@ignore_warnings
def test_loader_of_converter_reads_the_other_columns(tmp_path: Path) -> None:
    write_encrypted(tmp_path / "a.parquet", ROWS.select(["id", "name"]), ["name"])
    converter = make_spark_converter(f"file://{tmp_path}")
    (batch,) = converter.make_torch_dataloader(4, num_epochs=1, shuffle_row_groups=False)
    assert {name: values.tolist() for name, values in batch.items()} == {"id": [1, 2, 3, 4]}


def encrypted_table(directory: Path, *, counted: bool, plaintext_footer: bool) -> str:
    """Write a Delta table of two files, of which the second is encrypted."""
    rows = ROWS.select(["id", "name"])
    actions = [add(directory, f"{name}.parquet", rows, counted=counted) for name in "ab"]
    write_encrypted(directory / "b.parquet", rows, ["name"], plaintext_footer=plaintext_footer)
    actions[1]["add"]["size"] = (directory / "b.parquet").stat().st_size
    fields = [field("id", "long"), field("name", "string")]
    commit(directory, OLD_PROTOCOL, metadata(fields), *actions)
    return f"file://{directory}"


@pytest.mark.parametrize("counted", [True, False])
def test_table_with_encrypted_footer_raises_error_that_names_encryption(
    counted: bool, tmp_path: Path
) -> None:
    url = encrypted_table(tmp_path, counted=counted, plaintext_footer=False)
    with pytest.raises(UnsupportedTableError, match=r"b\.parquet is an encrypted Parquet file"):
        read(url, on_corrupt="skip")


def test_table_whose_footers_are_read_leaves_out_encrypted_columns(tmp_path: Path) -> None:
    url = encrypted_table(tmp_path, counted=False, plaintext_footer=True)
    with pytest.warns(UserWarning, match=r"Column 'name' .* string \(encrypted\)"):
        assert read(url) == {"id": [1, 2, 3, 4] * 2}


def test_table_whose_footers_are_not_read_raises_error_for_encrypted_columns(
    tmp_path: Path,
) -> None:
    url = encrypted_table(tmp_path, counted=True, plaintext_footer=True)
    assert read(url, schema_fields=["id"]) == {"id": [1, 2, 3, 4] * 2}
    with pytest.raises(UnsupportedTableError, match=r"b\.parquet has encrypted columns.*'name'"):
        read(url, on_corrupt="skip")
