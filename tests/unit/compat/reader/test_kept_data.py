"""What is kept beyond a process is not used for a dataset that was written again in place."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.kit.readers import batch_reader

from mdstorm import TransformSpec
from mdstorm.errors import InvalidArgumentError
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index
from mdstorm.selectors import SingleIndexSelector
from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataset, open_dataset

ROWS = 90


def keys(flip: int) -> list[int]:
    """The values in three shards or row groups: rows of shard 1 have another key if `flip` is 1."""
    return [(i // 30 + flip) % 2 for i in range(ROWS)]


def write_mds(path: Path, flip: int) -> None:
    options: dict[str, Any] = {"columns": {"id": "int64", "k": "int64"}, "size_limit": 800}
    written = path.parent / "written"
    with MDSWriter(out=str(written), exist_ok=True, **options) as writer:
        for number, key in enumerate(keys(flip)):
            writer.write({"id": number, "k": key})
    path.mkdir(exist_ok=True)
    for file in written.iterdir():  # a writer would refuse a directory with a row group index
        shutil.copyfile(file, path / file.name)


def write_parquet(path: Path, flip: int) -> None:
    path.mkdir(exist_ok=True)
    columns = {"id": pa.array(range(ROWS)), "k": pa.array(keys(flip))}
    pq.write_table(pa.table(columns), path / "part.parquet", row_group_size=30)


def where(path: Path, _cache: Path) -> list[int]:
    dataset = StreamingDataset(local=str(path), order=ExactOrder(), where=[("k", "=", 0)])
    return [int(sample["id"]) for sample in dataset]


def rows_and_where(path: Path, _cache: Path) -> list[int]:
    options: Any = {"where": [("k", "=", 0)], "rows": slice(0, ROWS, 10)}
    dataset = StreamingDataset(local=str(path), order=ExactOrder(), **options)
    return [int(sample["id"]) for sample in dataset]


def read(path: Path, **arguments: Any) -> list[int]:
    with batch_reader(path.as_uri(), **arguments) as reader:
        return [int(i) for batch in reader for i in batch.k]


def selected(path: Path, cache: Path) -> list[int]:
    if not cache.exists():
        build_rowgroup_index(path.as_uri(), None, [SingleFieldIndexer("by k", "k")])
        cache.mkdir()
    return read(path, rowgroup_selector=SingleIndexSelector("by k", [0]))


def cached(path: Path, cache: Path, **arguments: Any) -> list[int]:
    given = {
        "cache_type": "local-disk",
        "cache_location": str(cache),
        "cache_size_limit": 1 << 20,
        "cache_row_size_estimate": 100,
        "cache_extra_settings": {"cleanup": False},
    }
    return read(path, **given, **arguments)


def transformed(path: Path, cache: Path) -> list[int]:
    def note(frame: pd.DataFrame) -> pd.DataFrame:
        tempfile.mkstemp(dir=os.environ["MDSTORM_TEST_CALLS"])
        return frame

    return cached(path, cache, transform_spec=TransformSpec(note))


class Kept(NamedTuple):
    """A way to read a dataset that keeps something, and the rows that it reads."""

    read: Callable[[Path, Path], list[int]]
    write: Callable[[Path, int], None]
    rows: Callable[[int], list[int]]


def matching(step: int = 1) -> Callable[[int], list[int]]:
    return lambda flip: [i for i in range(0, ROWS, step) if keys(flip)[i] == 0]


KINDS = {
    "where": Kept(where, write_mds, matching()),
    "rows and where": Kept(rows_and_where, write_mds, matching(10)),
    "index of MDS": Kept(selected, write_mds, lambda flip: [k for k in keys(flip) if k == 0]),
    "cache of MDS": Kept(cached, write_mds, keys),
    "cache of Parquet": Kept(cached, write_parquet, keys),
    "transform of MDS": Kept(transformed, write_mds, keys),
    "transform of Parquet": Kept(transformed, write_parquet, keys),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MDSTORM_TEST_CALLS", str(tmp_path / "calls"))
    (tmp_path / "calls").mkdir()
    found: Kept = request.param
    return found


def fingerprint(path: Path) -> str:
    opened: Any = open_dataset if (path / "index.json").exists() else open_parquet
    return str(opened(str(path)).fingerprint)


def test_dataset_that_is_written_again_in_place_is_read_again(kept: Kept, tmp_path: Path) -> None:
    path, cache = tmp_path / "data", tmp_path / "kept"
    kept.write(path, 0)
    before = fingerprint(path)
    assert kept.read(path, cache) == kept.rows(0)
    sizes = {file.name: file.stat().st_size for file in path.iterdir() if file.name[0] != "_"}
    kept.write(path, 1)
    assert sizes == {f.name: f.stat().st_size for f in path.iterdir() if f.name[0] != "_"}
    assert (fingerprint(path) == before) is (kept.write is write_mds)
    if kept.read is selected:
        with pytest.raises(InvalidArgumentError, match="before the dataset was written again"):
            kept.read(path, cache)
        shutil.rmtree(cache)
    assert kept.read(path, cache) == kept.rows(1)


def test_dataset_that_has_not_changed_is_not_read_again(kept: Kept, tmp_path: Path) -> None:
    path, cache = tmp_path / "data", tmp_path / "kept"
    kept.write(path, 0)
    found = [kept.read(path, cache) for _ in range(2)]
    assert found == 2 * [kept.rows(0)]
    assert len(list((tmp_path / "calls").iterdir())) == (3 if kept.read is transformed else 0)


def test_index_of_a_copy_with_equal_times_is_used(tmp_path: Path) -> None:
    write_mds(tmp_path / "data", 0)
    assert selected(tmp_path / "data", tmp_path / "built") == 60 * [0]
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    assert selected(tmp_path / "copy", tmp_path / "built") == 60 * [0]
