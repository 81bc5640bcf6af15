"""Damaged files are reported as damaged: never as an error of another kind, never by a crash."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mds_backend.small_datasets import array_of, struct_of, write_dataset

from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets.dataset import Dataset, open_dataset
from mdstorm_backend.errors import CorruptDatasetError, MDStormError, UnsupportedEncodingError
from mdstorm_backend.format.index import Index
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.mds_shard import MDSShard

FIXED = {"number": "long", "flag": "boolean", "pair": array_of("integer")}
VARIABLE = {
    "text": "string",
    "bytes": "binary",
    "list": array_of("integer"),
    "price": "decimal(10,2)",
    "words": array_of("string"),
    "thing": struct_of(a="date", b="binary"),
}
ROWS = {
    "number": [1, None, 3],
    "flag": [True, False, None],
    "pair": [[1, None], None, [3, 4]],
    "text": ["one", None, "three"],
    "bytes": [b"1", b"", None],
    "list": [[1], [], [2, None]],
    "price": [Decimal("1.50"), None, Decimal("-3.00")],
    "words": [["a", None], None, []],
    "thing": [{"a": 1, "b": b"x"}, None, {"a": None, "b": b""}],
}


class Target:
    """A dataset of one shard whose bytes can be replaced."""

    def __init__(self, dataset: Dataset) -> None:
        self.url = dataset.url
        (shard,) = dataset.index.shards
        self.file = Path(dataset.location.path, (shard.zip_data or shard.raw_data).basename)
        self.data = self.file.read_bytes()
        self.samples = shard.samples

    def read(self, data: bytes) -> None:
        # A new file: the old one may still be mapped.
        self.file.unlink()
        self.file.write_bytes(data)
        with TemporaryDirectory() as directory:  # a cache that knows none of the others
            options = CacheOptions(directory=directory)
            rows = 0
            for batch in open_dataset(self.url, cache=options).batches(2):
                rows += len(next(iter(batch.values())))
            assert rows == self.samples
            dataset = open_dataset(self.url, cache=options)
            order = ExactOrder(seed=1, shuffle_rows=True)
            for batch in BatchReader(dataset, order, batch_size=1, workers=0):
                assert batch
            for i in range(self.samples):
                assert dataset.sample(i)


@pytest.fixture(
    params=[
        *("fixed", "variable", "zstd"),
        *(pytest.param(name, marks=pytest.mark.long) for name in ("gz", "bz2", "br", "snappy")),
    ],
    scope="module",
)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Target:
    fields = FIXED if request.param == "fixed" else VARIABLE
    compression = None if request.param in ("fixed", "variable") else request.param
    directory = tmp_path_factory.mktemp(request.param)
    rows = {name: ROWS[name] for name in fields}
    return Target(write_dataset(directory, rows, fields, compression=compression))


def check_damage(target: Target, data: bytes) -> None:
    """Damage that cannot be seen may pass; what is seen must be reported by name."""
    found: MDStormError | None = None
    try:
        target.read(data)
    except (CorruptDatasetError, UnsupportedEncodingError) as error:
        found = error
    if isinstance(found, CorruptDatasetError):
        assert found.url == f"file://{target.file}"
        assert found.url in str(found)
        assert "rite the dataset again" in str(found)
    elif found is not None:
        assert "dimensions" in str(found)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_any_changed_byte_is_harmless_or_reported(target: Target, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(target.data) - 1))
    byte = data.draw(st.integers(0, 255))
    check_damage(target, target.data[:position] + bytes([byte]) + target.data[position + 1 :])


def with_words(data: bytes, start: int, *words: int) -> bytes:
    encoded = np.array(words, "<u4").tobytes()
    return data[:start] + encoded + data[start + len(encoded) :]


def test_damaged_size_words_are_reported_with_the_sample(tmp_path: Path) -> None:
    rows = {"text": ["ab", "c", ""], "other": ["x", "y", "z"]}
    target = Target(write_dataset(tmp_path, rows, {"text": "string", "other": "string"}))
    second = int(np.frombuffer(target.data, "<u4", 1, 8)[0])
    for words in ([2, 1], [0, 0], [1_000_000, 1], [4_294_967_295, 2]):
        with pytest.raises(CorruptDatasetError, match="holds sample 1 with column sizes"):
            target.read(with_words(target.data, second, *words))


def test_a_shard_of_another_layout_is_reported(tmp_path: Path) -> None:
    longs = write_dataset(tmp_path, {"n": [1, 2, 3, 4]}, {"n": "long"})
    (shard,) = longs.index.shards
    shorts = replace(shard, column_encodings=("int16",), column_sizes=(2,))
    url = f"{longs.url}/x.mds"
    data = longs.location.read(shard.raw_data.basename)
    with pytest.raises(CorruptDatasetError, match=r"4 samples of 2 bytes each .* but 32 bytes"):
        MDSShard(data, shorts, Schema.from_shards([shorts]), url=url)
    with pytest.raises(CorruptDatasetError, match="holds a schema that is not that of its shards"):
        Dataset(longs.location, Index((shorts,), longs.index.extra)).to_table()


def test_a_shard_without_a_column_of_others_is_reported(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a", {"n": [1], "m": [2]}, {"n": "long", "m": "long"})
    write_dataset(tmp_path / "b", {"n": [3]}, {"n": "long"})
    shards = [
        replace(shard, raw_data=replace(shard.raw_data, basename=f"{d}/{shard.raw_data.basename}"))
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
