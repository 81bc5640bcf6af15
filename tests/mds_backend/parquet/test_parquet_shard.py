"""A row group is decoded once while it is open, and only the columns asked for."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.mds_backend.read.readers import exact, flat

from mdstorm_backend.errors import ArgumentTypeError, CorruptDatasetError, DatasetNotFoundError
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.parquet import ParquetDataset, open_parquet, parquet_dataset

ROWS, PER_GROUP = 100, 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = pa.table({"n": range(ROWS), "s": [str(n) for n in range(ROWS)], "x": [0.5] * ROWS})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=PER_GROUP)
    return tmp_path / "a.parquet"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """Row groups and columns, as they are decoded."""
    calls = []
    real = pq.ParquetFile.read_row_groups

    def read(self: pq.ParquetFile, groups: Any, columns: Any = None, **options: Any) -> pa.Table:
        calls.extend((number, tuple(columns)) for number in groups)
        return real(self, groups, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", read)
    return calls


def test_a_column_is_decoded_once(path: Path, decoded: list[Any]) -> None:
    shard = open_parquet(str(path)).shard(3)
    shard.will_need()
    assert decoded == []
    for rows in (np.array([1, 5]), np.arange(4), np.arange(10)):
        assert shard.read(rows, ["n"])["n"].tolist() == (rows + 30).tolist()  # type: ignore[union-attr]
    shard.read(np.arange(2), ["n", "s"], exact_nulls=True)
    assert shard.sample(4) == {"n": 34, "s": "34", "x": 0.5}
    assert decoded == [(3, ("n",)), (3, ("s",)), (3, ("x",))]


def test_a_shuffled_window_decodes_each_row_group_once(
    path: Path, decoded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_dataset, "_KEPT_BYTES", 1)
    dataset = open_parquet(str(path))
    order = ExactOrder(seed=1, shuffle_rows=True, window=ROWS)
    found = flat(exact(dataset, order, 3, columns=["n"], block_rows=6), "n")
    assert sorted(found) == list(range(ROWS))
    assert found != sorted(found)
    assert sorted(decoded) == [(group, ("n",)) for group in range(ROWS // PER_GROUP)]


def test_row_groups_that_nobody_uses_are_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_dataset, "_KEPT_BYTES", 1)
    dataset = open_parquet(str(path))
    held = dataset.shard(0)
    for number in range(ROWS // PER_GROUP):
        dataset.shard(number).make_ready(["n"])
    gc.collect()
    opened = [n for n in range(ROWS // PER_GROUP) if dataset.find_open(n) is not None]
    assert opened == [0, ROWS // PER_GROUP - 1]
    assert dataset.shard(0) is held


def test_samples_that_are_not_there(path: Path) -> None:
    dataset = open_parquet(str(path))
    assert dataset[-1]["n"] == ROWS - 1
    with pytest.raises(IndexError, match="sample 100 of 100"):
        dataset[ROWS]
    with pytest.raises(IndexError, match="sample 10 of 10"):
        dataset.shard(0).sample(10)
    for read in (lambda: dataset.sample(0, ["y"]), lambda: dataset.select(["y"])):
        with pytest.raises(ArgumentTypeError, match=r"no columns \['y'\]"):
            read()


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"no Parquet at all", b"PAR1\xff\xff\xff\xffPAR1"]
)
def test_files_that_are_no_parquet(content: bytes, path: Path) -> None:
    (path.parent / "b.parquet").write_bytes(content)
    with pytest.raises(
        CorruptDatasetError, match=r"b\.parquet is (not a Parquet file|empty)"
    ) as found:
        open_parquet(str(path.parent))
    assert found.value.url == f"file://{path.parent}/b.parquet"


@pytest.mark.parametrize("damage", [lambda d: d[:-5], lambda d: d.replace(b"\x01s", b"\x01\xff")])
def test_files_with_damaged_footers(damage: Callable[[bytes], bytes], path: Path) -> None:
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptDatasetError, match="was truncated"):
        open_parquet(str(path))


def test_a_file_with_damaged_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    dataset = open_parquet(str(path))
    with pytest.raises(CorruptDatasetError, match=r"a\.parquet holds a row group that cannot be"):
        list(dataset.batches(10))


def test_a_file_that_changes_or_goes_meanwhile(path: Path) -> None:
    dataset: ParquetDataset = open_parquet(str(path))
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(CorruptDatasetError, match=r"a\.parquet no longer has \d+ bytes, as it did"):
        dataset[0]
    path.unlink()
    with pytest.raises(DatasetNotFoundError, match=r"a\.parquet is gone"):
        dataset[0]
