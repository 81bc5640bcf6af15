"""Directories with files that are not part of the data raise errors; others are read.

If a different format is found where an index is expected, the error names that format.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet

from mdstorm_backend import LocalDataset, StreamingDataset
from mdstorm_backend.errors import DatasetNotFoundError, UnsupportedTableError
from mdstorm_backend.kinds import explaining_absence
from mdstorm_backend.maintenance import inspect, reindex


def stream(url: str) -> int:
    """Open an MDS dataset as MosaicML Streaming does."""
    return len(StreamingDataset(remote=url, batch_size=1))


def write(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [number]}), folder / name)
    return folder


def touch(folder: Path, name: str, content: Any = "") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize("inside", ["", "lake/"])
def test_hudi_table_raises_error_with_the_spark_call(tmp_path: Path, inside: str) -> None:
    write(tmp_path / inside, "data/a.parquet")
    touch(tmp_path / inside, ".hoodie/hoodie.properties")
    with pytest.raises(UnsupportedTableError, match="is a Hudi table") as raised:
        open_parquet(str(tmp_path))
    assert "make_spark_converter(spark.read.format('hudi').load(" in str(raised.value)
    assert raised.value.url == f"file://{tmp_path}/{inside}".rstrip("/")
    with pytest.raises(UnsupportedTableError, match=r"is a Hudi table.*read\.format\('hudi'\)"):
        inspect(str(tmp_path / inside))
    with pytest.raises(DatasetNotFoundError, match=r"is a Hudi table.*read\.format\('hudi'\)"):
        stream(str(tmp_path / inside))


@pytest.mark.parametrize(
    ("kind", "mark", "file"),
    [
        ("Iceberg", "metadata/v1.metadata.json", "data/a.parquet"),
        ("Iceberg", "metadata/v1.gz.metadata.json", "data/x=1.0/y=a/a.parquet"),
        ("Iceberg", "metadata/00001-5a.metadata.json", "data/0110/1010/1101/a.parquet"),
        ("Hudi", ".hoodie/hoodie.properties", "x=1/a.parquet"),
        ("Hudi", ".hoodie/hoodie.properties", "2024/01/31/a.parquet"),
        ("Hudi", ".hoodie/hoodie.properties", "2024-01-31/a.parquet"),
        ("Hudi", "Rome/.hoodie_partition_metadata", "Rome/a.parquet"),
    ],
)
def test_path_inside_a_table_raises_error_naming_the_table(
    tmp_path: Path, kind: str, mark: str, file: str
) -> None:
    write(tmp_path / "table", file)
    touch(tmp_path / "table", mark)
    path = tmp_path / "table" / file
    parts: list[Any] = [str(path.parent)]
    if not mark.startswith("Rome"):
        parts += [str(path), [str(path)], f"{path.parent}/*.parquet"]
    for part in parts:
        with pytest.raises(UnsupportedTableError, match=f"is an? (table of )?{kind}") as caught:
            open_parquet(part)
        assert caught.value.url in (f"file://{tmp_path}/table", f"file://{tmp_path}/table/Rome")


def test_directory_that_contains_a_table_raises_error(tmp_path: Path) -> None:
    write(tmp_path, "plain/a.parquet", "table/b.parquet")
    touch(tmp_path, "table/_delta_log/00000000000000000000.json")
    with pytest.raises(UnsupportedTableError, match="table is a Delta table"):
        open_parquet(str(tmp_path))
    (tmp_path / "table" / "_delta_log" / "00000000000000000000.json").unlink()
    touch(tmp_path, "table/metadata/00001-5a.gz.metadata.json")
    with pytest.raises(UnsupportedTableError, match="table is an Iceberg table"):
        open_parquet(str(tmp_path))
    assert len(open_parquet(str(tmp_path / "plain"))) == 1


def test_unfinished_spark_jobs_raise_error(tmp_path: Path) -> None:
    write(tmp_path, "part-0.parquet")
    touch(tmp_path, "_temporary/0/_temporary/attempt_0/part-1.parquet")
    with pytest.raises(UnsupportedTableError, match="directory _temporary: a Spark job"):
        open_parquet(str(tmp_path))
    assert len(open_parquet(str(tmp_path), may_be_unfinished=True)) == 1


def test_files_not_committed_by_databricks_raise_error(tmp_path: Path) -> None:
    write(tmp_path, "k=0/part-00000-tid-11-a.parquet", "k=1/part-00000-tid-22-b.parquet")
    touch(tmp_path, "_started_11")
    touch(tmp_path, "_committed_11", {"added": ["k=0/part-00000-tid-11-a.parquet"], "removed": []})
    assert len(open_parquet(str(tmp_path))) == 2
    touch(tmp_path, "k=1/_started_22")
    with pytest.raises(UnsupportedTableError, match=r"tid-22-b.* _started_22 and no _committed_"):
        open_parquet(str(tmp_path))
    touch(tmp_path, "k=1/_committed_22", {"added": [], "removed": []})
    assert len(open_parquet(str(tmp_path))) == 2
    touch(tmp_path, "_committed_33", {"added": [], "removed": ["k=0/part-00000-tid-11-a.parquet"]})
    with pytest.raises(UnsupportedTableError, match=r"tid-11-a.*was removed by a Spark job"):
        open_parquet(str(tmp_path))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"added": []}', '{"removed": null}'])
def test_unreadable_databricks_commit_files_are_ignored(tmp_path: Path, content: str) -> None:
    write(tmp_path, "part-00000-tid-11-a.parquet")
    touch(tmp_path, "_committed_11", content)
    assert len(open_parquet(str(tmp_path))) == 1


def test_files_that_resemble_markers_are_ignored(tmp_path: Path) -> None:
    """``_SUCCESS`` is not a marker either, because writers such as pyarrow do not write it."""
    write(tmp_path, "part.0.parquet", "metadata/x.parquet")
    for name in ("metadata/_notes.json", "_metadata", "_SUCCESS", "._started_1", "_started_5"):
        touch(tmp_path, name)
    assert len(open_parquet(str(tmp_path))) == 2


def petastorm(folder: Path) -> Path:
    return write(folder, "_common_metadata", "part-0.parquet")


def delta(folder: Path) -> Path:
    (folder / "_delta_log").mkdir()
    return write(folder, "part-0.parquet")


def iceberg(folder: Path) -> Path:
    touch(folder, "metadata/v1.metadata.json")
    return write(folder, "data/part-0.parquet")


@pytest.mark.parametrize(
    ("make", "kind", "reader"),
    [
        (lambda f: write(f, "no_ending") / "no_ending", "a Parquet file", "make_batch_reader"),
        (lambda f: write(f, "part-0.snappy.parquet"), "Parquet files", "make_batch_reader"),
        (lambda f: write(f, "year=2024/month=5/0.parquet"), "Parquet files", "make_batch_reader"),
        (petastorm, "Parquet files with _common_metadata, as Petastorm", "make_reader"),
        (delta, "a Delta table", "make_batch_reader"),
        (iceberg, "an Iceberg table", "make_batch_reader"),
    ],
)
def test_error_for_other_format_names_the_format_and_the_command_to_use(
    make: Callable[[Path], Path], kind: str, reader: str, tmp_path: Path
) -> None:
    url = f"file://{make(tmp_path)}"
    for use in (stream, reindex):
        with pytest.raises(DatasetNotFoundError) as caught:
            use(url)
        text = str(caught.value)
        assert text.startswith(f"there is no MDS dataset at {url}, but {kind}")
        assert f"mdstorm convert {url} DST" in text
        assert f"mdstorm.{reader}({url!r})" in text


def test_failed_open_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DatasetNotFoundError):
        LocalDataset(str(write(tmp_path, "no_ending") / "no_ending"))
    assert not caplog.records


@pytest.mark.parametrize("name", ["text.csv", "directory", "absent"])
def test_error_for_unknown_files_mentions_only_the_missing_index(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("a,b")
    write(tmp_path, "directory/inner/part.parquet")
    with pytest.raises(
        DatasetNotFoundError, match=r"^there is no dataset at .* it has no index\.json"
    ):
        LocalDataset(str(tmp_path / name))


def test_storage_error_while_detecting_the_format_is_ignored() -> None:
    with pytest.raises(DatasetNotFoundError, match="nothing here"), explaining_absence():
        raise DatasetNotFoundError("nothing here", url="https://localhost:1/x")
