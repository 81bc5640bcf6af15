"""Damaged files are reported as damaged, and never cause other errors or crashes."""

from pathlib import Path

import numpy as np
import pytest
from tests.kit.damage import rewrite, with_words
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import open_dataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.index import Index
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.read.mds_shard import MDSShard


def test_damaged_sizes_are_reported_with_the_sample(tmp_path: Path) -> None:
    rows = {"text": ["ab", "c", ""], "other": ["x", "y", "z"]}
    write_dataset(tmp_path, rows, {"text": "string", "other": "string"})
    (file,) = tmp_path.glob("*.mds")
    data = file.read_bytes()
    second = int(np.frombuffer(data, "<u4", 1, 8)[0])
    for words in ([2, 1], [0, 0], [1_000_000, 1], [4_294_967_295, 2]):
        rewrite(file, with_words(data, second, *words))
        with pytest.raises(CorruptDatasetError, match="holds sample 1 with column sizes"):
            open_dataset(str(tmp_path)).to_table()


def test_shard_with_a_different_layout_is_reported(tmp_path: Path) -> None:
    longs = write_dataset(tmp_path, {"n": [1, 2, 3, 4]}, {"n": "long"})
    (shard,) = longs.index.shards
    shorts = shard._replace(column_encodings=("int16",), column_sizes=(2,))
    url = f"{longs.url}/x.mds"
    data = longs.location.read(shard.raw_data.basename)
    with pytest.raises(
        CorruptDatasetError, match=r"4 samples of 2 bytes each .* but contains 32 bytes"
    ):
        MDSShard(data, shorts, Schema.from_shards([shorts]), url=url)
    with pytest.raises(CorruptDatasetError, match="holds a schema that does not match its shards"):
        Dataset(longs.location, Index((shorts,), longs.index.extra)).to_table()


def test_shard_without_a_column_that_others_have_is_reported(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a", {"n": [1], "m": [2]}, {"n": "long", "m": "long"})
    write_dataset(tmp_path / "b", {"n": [3]}, {"n": "long"})
    shards = [
        shard._replace(raw_data=shard.raw_data._replace(basename=f"{d}/{shard.raw_data.basename}"))
        for d in "ab"
        for shard in open_dataset(str(tmp_path / d)).index.shards
    ]
    schema = Schema.from_shards(shards)
    shard = MDSShard(
        (tmp_path / shards[1].raw_data.basename).read_bytes(), shards[1], schema, url="file:///b"
    )
    assert shard.read(np.array([0]), ["n"])["n"].tolist() == [3]
    for read in (lambda: shard.read(np.array([0]), ["n", "m"]), lambda: shard.sample(0)):
        with pytest.raises(CorruptDatasetError, match=r"file:///b has no columns \['m'\]"):
            read()


def test_impossible_numbers_and_nesting_in_an_index_raise_error(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"n": [1]}, {"n": "long"})
    path = tmp_path / "index.json"
    index = path.read_text()
    for damaged in (index.replace('"samples": 1', '"samples": 1e400'), "[" * 100_000):
        path.write_text(damaged)
        with pytest.raises(CorruptDatasetError, match="is not the index of an MDS dataset"):
            open_dataset(str(tmp_path))
