"""Datasets are described and verified, and every problem is reported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pytest
from tests.kit import damage
from tests.kit.small_datasets import array_of, struct_of, write_dataset, write_numbers

from mdstorm_backend.errors import CredentialsError, DatasetNotFoundError, StorageError
from mdstorm_backend.maintenance.inspect import Inspection, inspect
from mdstorm_backend.maintenance.reindex import reindex
from mdstorm_backend.maintenance.verify import VerifyReport, verify
from mdstorm_backend.storage import Location
from mdstorm_backend.write.mds_writer import MDSWriter

#: A white pixel as a PNG file.
ONE_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c63f80f00010101001bb6ee560000000049454e44ae426082"
)


def check_json(found: Inspection) -> None:
    assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()


def problems(report: VerifyReport) -> list[tuple[str, str]]:
    assert not report.is_good
    assert json.loads(json.dumps(report.to_json())) == report.to_json()
    return [(problem.file, problem.problem) for problem in report.problems]


def shard_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.mds*"))


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("compression", [None, "zstd", "gz", "bz2", "br", "snappy"])
def test_verify_finds_no_problems_in_written_datasets(
    compression: str | None, quick: bool, tmp_path: Path
) -> None:
    dataset = write_dataset(tmp_path, damage.ROWS, damage.FIELDS, tasks=2, compression=compression)
    steps: list[tuple[int, int]] = []
    report = verify(
        str(tmp_path), quick=quick, on_progress=lambda done, of: steps.append((done, of))
    )
    assert report.is_good
    assert (report.problems, report.notes) == ((), ())
    assert (report.url, report.shards, report.rows) == (dataset.url, 2, 4)
    assert report.bytes == sum(file.stat().st_size for file in shard_files(tmp_path))
    assert steps[-1:] == ([] if quick else [(2, 2)])


@pytest.mark.parametrize("directory", damage.GOLDEN_NAMES)
def test_mosaicml_streaming_datasets_are_verified_and_described(directory: str) -> None:
    found = inspect(str(damage.GOLDEN / directory))
    check_json(found)
    assert not found.logical_schema
    assert found.rows == found.shard_rows.total
    report = verify(str(damage.GOLDEN / directory))
    assert report.problems == ()
    assert all("pkl" in note.problem for note in report.notes)


@pytest.mark.parametrize("quick", [True, False])
def test_verify_lists_all_missing_and_truncated_files(quick: bool, tmp_path: Path) -> None:
    write_numbers(tmp_path, 500)
    first, _, third, *_ = shard_files(tmp_path)
    first.unlink()
    damage.rewrite(third, third.read_bytes()[:-1])
    size = third.stat().st_size
    assert problems(verify(str(tmp_path), quick=quick)) == [
        (first.name, "is missing"),
        (third.name, f"holds {size} bytes, but the index records {size + 1}"),
    ]


def test_verify_lists_files_outside_the_index(tmp_path: Path) -> None:
    write_numbers(tmp_path, 10)
    (tmp_path / "part-00001-7.00000.mds").write_bytes(b"left behind")
    (tmp_path / "notes.txt").write_bytes(b"of no concern")
    report = verify(str(tmp_path))
    assert report.is_good
    assert list(map(vars, report.notes)) == [
        {"file": "part-00001-7.00000.mds", "problem": "is not in the index"}
    ]


@pytest.mark.parametrize("name", ["compression_zstd", "scalars", "varlen"])
def test_verify_finds_a_changed_byte_by_hash(name: str, tmp_path: Path) -> None:
    directory = damage.copy_of(name, tmp_path)
    file = shard_files(directory)[-1]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    damage.rewrite(file, bytes(data))
    assert verify(str(directory), quick=True).is_good
    found = problems(verify(str(directory)))
    assert found[0][0] == file.name
    assert "but the index records" in found[0][1]


def test_verify_checks_raw_and_compressed_hashes_regardless_of_case(tmp_path: Path) -> None:
    directory = damage.copy_of("compression_zstd", tmp_path)

    def change(index: Any) -> None:
        for shard in index["shards"]:
            hashes = shard["zip_data"]["hashes"]
            hashes.update({name: found.upper() for name, found in hashes.items()})
        raw = index["shards"][0]["raw_data"]
        raw["hashes"] = dict.fromkeys(raw["hashes"], "00")

    damage.change_index(directory, change)
    found = problems(verify(str(directory)))
    assert {file for file, _ in found} == {shard_files(directory)[0].name}
    assert [problem.split(" ")[:3] for _, problem in found] == [
        ["has", "the", name] for name in ("sha1", "xxh64")
    ]


def test_unknown_hash_is_reported_once_for_all_shards(tmp_path: Path) -> None:
    write_numbers(tmp_path, 500, compression="zstd")

    def change(index: Any) -> None:
        for shard in index["shards"]:
            shard["hashes"] = ["sha9"]
            for file in (shard["raw_data"], shard["zip_data"]):
                file["hashes"] = {"sha9": "00"}

    damage.change_index(tmp_path, change)
    first, *_ = shard_files(tmp_path)
    report = verify(str(tmp_path))
    assert report.is_good
    text = "its hash 'sha9' is unknown and was not checked"
    assert list(map(vars, report.notes)) == [{"file": first.name, "problem": text}]


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (lambda data: damage.with_words(data, 0, 3), "does not start like a shard with 4 samples"),
        (lambda data: damage.with_words(data, 8, 0), "does not start like a shard with 4 samples"),
        (lambda data: data.replace(b'{"column', b'["column', 1), "has an unreadable header"),
        (lambda data: data.replace(b'"int64"', b'"int32"', 1), 'has column_encodings ["int32", '),
        (lambda data: data.replace(b'"version": 2}', b'"version": 3}', 1), "has version 3 in its"),
        (lambda data: data.replace(b'"count": 4', b'"count": 5', 1), "null bitmaps"),
        (lambda data: data.replace(b"xyz", b"\xff\xfe\xff"), "cannot be decoded"),
        (lambda data: data.replace(b'{"a":1}', b'{"a":1['), "cannot be decoded"),
    ],
)
def test_verify_reports_a_damaged_shard(
    harm: Callable[[bytes], bytes], expected: str, tmp_path: Path
) -> None:
    fields = {"n": "long", "other": array_of("long"), "thing": struct_of(a="long"), "z": "string"}
    rows = {
        "n": [1, None, 3, 4],
        "other": [[1], [2, 3], [4], []],
        "thing": [{"a": 1}, None, {"a": None}, {"a": 2}],
        "z": ["xyz", "c", "d", ""],
    }
    write_dataset(tmp_path, rows, fields)
    (file,) = shard_files(tmp_path)
    damaged = harm(file.read_bytes())
    assert damaged != file.read_bytes()
    damage.rewrite(file, damaged)
    found = problems(verify(str(tmp_path)))
    assert {name for name, _ in found} == {file.name}
    assert any(expected in problem for _, problem in found)


def test_verify_reports_the_column_of_a_damaged_image(tmp_path: Path) -> None:
    directory = damage.copy_of("images_png", tmp_path)
    (file,) = shard_files(directory)
    damage.rewrite(file, file.read_bytes().replace(b"\x89PNG", b"\x89GNP"))

    def forget_hashes(index: Any) -> None:
        index["shards"][0]["hashes"] = []
        index["shards"][0]["raw_data"]["hashes"] = {}

    damage.change_index(directory, forget_hashes)
    ((name, problem),) = problems(verify(str(directory)))
    assert name == file.name
    assert problem.startswith("column 'p' holds a value that cannot be decoded as png")


def test_counts_that_do_not_match_the_shards_are_index_problems(tmp_path: Path) -> None:
    write_dataset(tmp_path, damage.ROWS, damage.FIELDS)

    def change(index: Any) -> None:
        index["mdstorm"]["num_rows"] = 7
        index["mdstorm"]["columns"][0]["null_count"] = 5
        index["mdstorm"]["columns"][2]["element_null_count"] = 0

    damage.change_index(tmp_path, change)
    assert problems(verify(str(tmp_path))) == [
        ("index.json", "counts 7 rows, but its shards hold 4"),
        ("index.json", "counts 5 nulls in column 'n', but its shards hold 1"),
        ("index.json", "counts 0 null elements in column 'list', but its shards hold 1"),
    ]


def test_index_without_schema_is_a_problem_only_if_it_hides_nulls(tmp_path: Path) -> None:
    """MosaicML Streaming writes such an index when it merges datasets."""
    write_numbers(tmp_path / "numbers", 10)
    write_dataset(tmp_path / "nulls", damage.ROWS, damage.FIELDS)
    for name in ("numbers", "nulls"):
        damage.change_index(tmp_path / name, lambda index: index.pop("mdstorm"))
    assert verify(str(tmp_path / "numbers")).is_good
    ((file, problem),) = problems(verify(str(tmp_path / "nulls")))
    assert file == "index.json"
    assert "nulls in ['list', 'n', 'text', 'thing']" in problem
    reindex(str(tmp_path / "nulls"), force=True)
    assert verify(str(tmp_path / "nulls")).is_good


@pytest.mark.parametrize("error", [StorageError("no answer"), CredentialsError("not you")])
def test_storage_that_cannot_be_read_raises_error_instead_of_a_problem(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_numbers(tmp_path, 10)
    read = Location.read

    def refused(self: Location, name: str) -> Any:
        if name.endswith(".mds"):
            raise error
        return read(self, name)

    monkeypatch.setattr(Location, "read", refused)
    with pytest.raises(type(error), match=str(error)):
        verify(str(tmp_path))


def test_null_image_is_not_a_problem(tmp_path: Path) -> None:
    with MDSWriter(out=tmp_path, columns={"image": "png", "number": "int16"}) as writer:
        writer.write_batch(pa.table({"image": [ONE_PIXEL, None], "number": [None, 1]}))
    assert verify(str(tmp_path)) == VerifyReport(f"file://{tmp_path}", False, 1, 2, ANY)


def test_damaged_index_is_reported_and_missing_index_raises_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        verify(str(tmp_path))
    write_numbers(tmp_path, 10)
    damage.change_index(tmp_path, lambda index: index["shards"][0].update(samples=-1))
    ((file, problem),) = problems(verify(str(tmp_path)))
    assert file == "index.json"
    assert problem.startswith("is not the index of an MDS dataset (shard 0: samples must be")


@pytest.mark.parametrize("compression", [None, "zstd:1"])
def test_description_lists_the_index_contents(compression: str | None, tmp_path: Path) -> None:
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


def test_description_lists_nulls_types_and_array_shapes(tmp_path: Path) -> None:
    write_dataset(tmp_path, damage.ROWS, damage.FIELDS, tasks=2)
    columns = {column.name: column for column in inspect(str(tmp_path)).columns}
    assert list(columns) == list(damage.FIELDS)
    assert columns["list"].spark_type == "array<long>"
    assert columns["list"].encodings == {"ndarray:int64": 1, "ndarray:int64:2": 1}
    assert (columns["list"].null_count, columns["list"].element_null_count) == (1, 1)
    assert columns["text"].null_count == 1
