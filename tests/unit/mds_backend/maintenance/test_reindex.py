import gzip
import json
import shutil
from pathlib import Path

import pytest
from tests.kit import damage
from tests.kit.small_datasets import numbers_in, write_dataset, write_numbers, write_shards
from tests.slow.fuzz.mutations import header_of, with_header

from mdstorm_backend import errors, open_dataset
from mdstorm_backend.maintenance.reindex import reindex
from mdstorm_backend.maintenance.verify import verify
from mdstorm_backend.write.mds_writer import MDSWriter


def lose_index(directory: Path) -> bytes:
    file = directory / "index.json"
    data = file.read_bytes()
    file.unlink()
    return data


def index_of(directory: Path) -> bytes:
    return (directory / "index.json").read_bytes()


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(f.relative_to(directory)): f.read_bytes() for f in directory.rglob("*") if f.is_file()
    }


@pytest.mark.parametrize("compression", [None, "zstd:1", "gz", "bz2", "br", "snappy"])
def test_reindex_restores_a_lost_index(compression: str | None, tmp_path: Path) -> None:
    write_dataset(tmp_path, damage.ROWS, damage.FIELDS, tasks=3, compression=compression)
    before = files_of(tmp_path)
    lose_index(tmp_path)
    steps: list[tuple[int, int]] = []
    report = reindex(str(tmp_path), on_progress=lambda done, of: steps.append((done, of)))
    assert files_of(tmp_path) == before
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert (report.shards, report.rows, report.replaced, report.notes) == (3, 4, False, ())
    assert json.loads(json.dumps(report.to_json()))["url"] == f"file://{tmp_path}"


@pytest.mark.parametrize(
    "name", [n for n in damage.GOLDEN_NAMES if n not in ("zero_samples", "merged_lexicographic")]
)
def test_reindex_restores_mosaicml_streaming_indexes(name: str, tmp_path: Path) -> None:
    directory = damage.copy_of(name, tmp_path)
    before = json.loads(lose_index(directory))
    report = reindex(str(directory))
    assert json.loads(index_of(directory)) == before
    assert report.notes == ()


def test_reindex_joins_directories_from_several_writers(tmp_path: Path) -> None:
    """In a dataset written by dataframe_to_mds, each partition has its own index."""
    for name in ("10", "9"):
        shutil.copytree(
            damage.copy_of("multi_shard", tmp_path / "copies" / name), tmp_path / "d" / name
        )
    before = files_of(tmp_path / "d")
    report = reindex(str(tmp_path / "d"))
    shards = open_dataset(str(tmp_path / "d")).index.shards
    assert [shard.raw_data.basename for shard in shards] == [
        f"{directory}/shard.{number:05}.mds" for directory in (9, 10) for number in range(4)
    ]
    assert report.rows == 120
    assert verify(str(tmp_path / "d")).is_good
    after = files_of(tmp_path / "d")
    assert after.pop("index.json")
    assert after == before


def test_reindex_keeps_an_existing_index_unless_forced(tmp_path: Path) -> None:
    write_numbers(tmp_path, 300)
    damage.change_index(tmp_path, lambda index: index["mdstorm"].update(further="entry"))
    before = index_of(tmp_path)
    damage.change_index(
        tmp_path, lambda i: i["mdstorm"].update(num_rows=i["shards"].pop()["samples"])
    )
    changed = index_of(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="--force"):
        reindex(str(tmp_path))
    assert index_of(tmp_path) == changed
    assert reindex(str(tmp_path), force=True).replaced
    assert json.loads(index_of(tmp_path)) == json.loads(before)
    (tmp_path / "index.json").write_bytes(b"damaged")
    assert reindex(str(tmp_path), force=True).replaced
    assert "further" not in json.loads(index_of(tmp_path))["mdstorm"]


def test_reindex_reports_gaps_and_unexpected_files(tmp_path: Path) -> None:
    write_numbers(tmp_path, 500)
    lose_index(tmp_path)
    _, second, *_ = sorted(tmp_path.glob("*.mds"))
    second.unlink()
    (tmp_path / "copy of a shard.mds").write_bytes(b"x")
    report = reindex(str(tmp_path))
    assert list(map(vars, report.notes)) == [
        {"file": "copy of a shard.mds", "problem": "was left out: its name is not a shard's"},
        {"file": second.name, "problem": "is missing: later ones are here"},
    ]
    assert verify(str(tmp_path)).problems == ()


def test_shard_with_decompressed_copy_is_indexed_once(tmp_path: Path) -> None:
    directory = damage.copy_of("compression_zstd", tmp_path)
    before = lose_index(directory)
    (directory / "shard.00000.mds").write_bytes(b"not looked at")
    reindex(str(directory))
    assert index_of(directory) == before


def test_decompressed_shards_are_indexed_as_uncompressed(tmp_path: Path) -> None:
    directory = damage.copy_of("compression_gz", tmp_path)
    expected = open_dataset(str(directory)).to_table()
    lose_index(directory)
    for file in sorted(directory.glob("*.gz")):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    report = reindex(str(directory))
    assert [note.problem for note in report.notes] == [
        "is not compressed, but its header states gz"
    ] * report.shards
    assert open_dataset(str(directory)).to_table().equals(expected)
    assert verify(str(directory)).problems == ()


def test_shards_that_contradict_each_other_raise_error(tmp_path: Path) -> None:
    for attempt in (1, 2):
        write_shards(tmp_path / "a", damage.ROWS, damage.FIELDS, prefix=f"part-00000-{attempt}")
    for partition, type_ in enumerate(("long", "integer")):
        prefix = f"part-0000{partition}-{partition}"
        write_shards(tmp_path / "b", {"a": [1]}, {"a": type_}, prefix=prefix)
    write_shards(tmp_path / "c", {"a": [1]}, {"a": "long"}, compression="zstd")
    (file,) = (tmp_path / "c").glob("*.zstd")
    file.with_suffix(".gz").write_bytes(b"x")
    for name, kind, message in [
        ("a", errors.WriteError, r"part-00000-1\.00000\.mds and part-00000-2\.00000\.mds"),
        ("b", errors.CorruptDatasetError, "describe different columns"),
        ("c", errors.WriteError, "several compressed versions"),
    ]:
        before = files_of(tmp_path / name)
        with pytest.raises(kind, match=message):
            reindex(str(tmp_path / name))
        assert files_of(tmp_path / name) == before


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_reindex_with_damaged_shard_raises_error_and_writes_no_index(
    compression: str | None, tmp_path: Path
) -> None:
    write_numbers(tmp_path, 500, compression=compression)
    lose_index(tmp_path)
    _, second, *_ = sorted(tmp_path.glob("*.mds*"))
    for data in (second.read_bytes()[:-3], b"", b"\xff" * 100, bytes(100)):
        damage.rewrite(second, data)
        with pytest.raises(errors.CorruptDatasetError) as caught:
            reindex(str(tmp_path))
        assert second.name in str(caught.value)
        assert caught.value.url == f"file://{second}"
    assert not (tmp_path / "index.json").exists()


def test_shard_header_with_unknown_features_raises_error(tmp_path: Path) -> None:
    write_numbers(tmp_path, 10)
    lose_index(tmp_path)
    (file,) = tmp_path.glob("*.mds")
    data = file.read_bytes()
    header = header_of(data)
    for changes in ({"hashes": ["sha9"]}, {"version": 3}, {"columns": 1}):
        damage.rewrite(file, with_header(data, {**header, **changes}))
        with pytest.raises(errors.CorruptDatasetError, match="is not a shard that can be indexed"):
            reindex(str(tmp_path))


def test_uncompressed_shard_whose_header_names_a_compression_is_indexed(tmp_path: Path) -> None:
    write_numbers(tmp_path, 10)
    lose_index(tmp_path)
    (file,) = tmp_path.glob("*.mds")
    data = file.read_bytes()
    damage.rewrite(file, with_header(data, {**header_of(data), "compression": "lz5"}))
    (note,) = reindex(str(tmp_path)).notes
    assert (note.file, "header states lz5" in note.problem) == (file.name, True)
    assert numbers_in(tmp_path, "number") == list(range(10))


def test_header_schema_with_different_columns_raises_error(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"n": [1, 2]}, {"n": "long"})
    lose_index(tmp_path)
    (file,) = tmp_path.glob("*.mds")
    header = header_of(file.read_bytes())
    header["mdstorm"]["columns"][0].update(encoding="str", spark_type="string")
    damage.rewrite(file, with_header(file.read_bytes(), header))
    with pytest.raises(errors.CorruptDatasetError, match="a schema that does not match its shards"):
        reindex(str(tmp_path))
    assert not (tmp_path / "index.json").exists()


def test_directory_without_shards_raises_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"x")
    for directory in (tmp_path, tmp_path / "no such"):
        with pytest.raises(errors.DatasetNotFoundError, match="no shards"):
            reindex(str(directory))


def test_reindex_reports_files_left_by_a_killed_writer(tmp_path: Path) -> None:
    writer = MDSWriter(out=tmp_path, columns={"n": "int"}, size_limit=1000)
    for number in range(500):
        writer.write({"n": number})
    with pytest.raises(errors.DatasetNotFoundError, match="is not finished, or was killed"):
        open_dataset(str(tmp_path))
    report = reindex(str(tmp_path))
    assert "later rows are missing" in str(report.notes)
    assert report.rows < 500
