"""Data that change after they were opened give the old rows, or an error."""

import os
import shutil
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit import changed_data
from tests.kit.clocks import Clock

from mdstorm_backend import MDSWriter, open_dataset
from mdstorm_backend.cache import CacheOptions, download
from mdstorm_backend.errors import DatasetChangedError
from mdstorm_backend.read import mds_shard
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.record_gather import RecordGatherer
from mdstorm_backend.storage import pins

PAIRS = [
    *((kind, name) for name in changed_data.ANY_KIND for kind in changed_data.KINDS),
    *((k, name) for k in changed_data.KINDS if k != "parquet" for name in changed_data.OF_MDS),
]
#: The short tests have each kind, each change and most readers: every fifth pair, with the changes
#: and moments in turn. In a forked process, TensorFlow takes a second.
MOMENTS = changed_data.MOMENTS
SHORT = [
    (*pair, change, [moment])
    for pair, change, moment in zip(
        PAIRS[::5], cycle(changed_data.CHANGES), cycle(MOMENTS), strict=False
    )
    if pair[1] != "tf"
]
CASES = [
    *SHORT,
    *(
        pytest.param(*pair, change, MOMENTS, marks=pytest.mark.long)
        for pair in PAIRS
        for change in changed_data.CHANGES
    ),
]


@pytest.mark.parametrize(("kind", "reader", "change", "moments"), CASES)
def test_changed_data_give_old_rows_or_an_error(
    kind: str,
    reader: str,
    change: str,
    moments: Sequence[str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    folder = Path(tmp_path_factory.getbasetemp())
    old = changed_data.written(folder, kind, "")
    new = changed_data.written(folder, kind, changed_data.CHANGES[change][0])
    read = {**changed_data.ANY_KIND, **changed_data.OF_MDS}[reader]
    found = {}
    for moment in moments:
        path = tmp_path / moment / "data"
        shutil.copytree(old, path)
        found[moment] = changed_data.run(path, kind, read, change, moment, new)
    expected = ["old", "DatasetChangedError: "]
    if change == "deleted":
        expected.append("DatasetNotFoundError: ")
    if reader in ("torch", "tf") and found.get("opened") == "new":
        # The loader opens the files when it is first used, and counts what the converter counted.
        del found["opened"]
    if reader == "tf":  # TensorFlow's error begins with the function that raised ours
        found = {
            m: f[f.find("Dataset") :] if f.startswith("UnknownError") else f
            for m, f in found.items()
        }
    wrong = {m: f for m, f in found.items() if not f.startswith(tuple(expected))}
    assert wrong == {}


def test_sample_of_changed_file_raises_error_right_after_sample_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for path, added in ((old, 0), (new, 1)):
        with MDSWriter(out=str(path), columns={"a": "int64"}, size_limit=1 << 17) as writer:
            writer.write_batch(pa.table({"a": np.arange(20_000) + added}))
    clock = Clock()
    for module in (mds_shard, pins):
        monkeypatch.setattr(module, "perf_counter", clock)
    dataset, last = open_dataset(str(old)), 19_999
    assert (dataset[0]["a"], dataset[last]["a"]) == (0, last)
    clock.advance(1)
    shard = dataset.index.shards[-1].raw_data.basename
    (old / shard).write_bytes((new / shard).read_bytes())
    assert dataset[0]["a"] == 0
    with pytest.raises(DatasetChangedError):
        dataset[last]


#: What is called between two checks: after a file was mapped, and after its rows were checked.
CALLS = {
    "compared with its hash": (download, "check_content"),
    "opened": (download, "check_content"),
    "copied by record": (RecordGatherer, "__call__"),
    "copied by column": (MDSShard, "_read_variable"),
}


@pytest.mark.parametrize("content", ["other rows", "damage"])
@pytest.mark.parametrize(
    ("moment", "rows"), [("opened", 3), *((moment, 30_000) for moment in CALLS)]
)
def test_shard_that_changes_while_it_is_read_raises_error(
    moment: str, rows: int, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"a": "int64"} if moment != "copied by column" else {"a": "int64", "s": "str"}
    old, new = (tmp_path / name for name in ("old", "new"))
    for folder, first in ((old, 0), (new, 1)):
        values = {"a": np.arange(first, first + rows), "s": ["x"] * rows}
        with MDSWriter(out=str(folder), columns=columns, hashes=["sha1"]) as writer:
            writer.write_batch(pa.table(values).select([*columns]))
    (shard,) = old.glob("*.mds")
    other = (new / shard.name).read_bytes()
    owner, name = CALLS[moment]
    called = getattr(owner, name)

    def changes(*args: Any, **options: Any) -> Any:
        written = shard.stat().st_mtime_ns
        shard.write_bytes(other if content == "other rows" else bytes(len(other)))
        os.utime(shard, ns=(written, written + 1_000_000_007))
        return called(*args, **options)

    hash_name = "sha1" if moment == "compared with its hash" else None
    dataset = open_dataset(str(old), cache=CacheOptions(validate_hash=hash_name))
    monkeypatch.setattr(owner, name, changes)
    with pytest.raises(DatasetChangedError, match="only its modification time differs"):
        dataset.to_table()
