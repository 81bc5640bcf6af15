"""Datasets to damage, and functions that damage and read them."""

import atexit
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp

import numpy as np
from tests.kit.damage import FIXED, GOLDEN, GOLDEN_NAMES, VALUES, VARIABLE
from tests.kit.small_datasets import write_dataset
from tests.slow.fuzz.mutations import damaged_bytes, damaged_json, header_of, with_header

from mdstorm_backend import open_dataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.errors import CorruptDatasetError, MDStormError
from mdstorm_backend.format.compression import decompress
from mdstorm_backend.format.index import Index, ShardInfo
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.loaders import Consumer
from mdstorm_backend.loaders.loader import Loader
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.order import ExactOrder, World
from mdstorm_backend.read.late import decode_late
from mdstorm_backend.read.mds_shard import MDSShard

CODECS = ("zstd", "gz", "bz2", "br", "snappy")
_ELASTIC = ElasticOrder(batch_size=2, shuffle=True, shuffle_seed=3, world=World(0, 2))
ORDERS = {"exact": ExactOrder(3, True, True), "elastic": _ELASTIC}

#: Targets that cover every Spark type, and every encoding in the format as MosaicML Streaming
#: writes it.
NAMES = (
    "fixed",
    "variable",
    "nulls and all types",
    *(n for n in GOLDEN_NAMES if n not in ("zero_samples", "size_limit_none", "multi_shard_kb")),
)


@dataclass(frozen=True)
class Target:
    """A dataset, its index and one of its shards."""

    dataset: Dataset
    index: bytes
    info: ShardInfo
    shard: bytes


@cache
def target(name: str) -> Target:
    if name in GOLDEN_NAMES:
        dataset = open_dataset(str(GOLDEN / name))
    else:
        fields = {"fixed": FIXED, "variable": VARIABLE}.get(name, {**FIXED, **VARIABLE})
        directory = mkdtemp()
        atexit.register(rmtree, directory, ignore_errors=True)
        codec = name if name in CODECS else None
        rows = {field: VALUES[field] for field in fields}
        dataset = write_dataset(directory, rows, fields, compression=codec)
    info = dataset.index.shards[0]
    index = Path(dataset.location.path, "index.json").read_bytes()
    return Target(dataset, index, info, _stored(dataset, info))


def _stored(dataset: Dataset, info: ShardInfo) -> bytes:
    """Return the uncompressed shard; raise OSError or ValueError if it cannot be read."""
    data = dataset.location.read(info.stored.basename)
    unpacked = decompress(info.compression, data, info.raw_data.bytes) if info.compression else data
    return bytes(unpacked)


def attack_shard(name: str, random: Random) -> bool:
    """Read a damaged shard; return whether it could be opened, and raise unexpected errors."""
    one = target(name)
    if random.random() < 0.3:
        data = with_header(one.shard, damaged_json(header_of(one.shard), random))
    else:
        data = damaged_bytes(one.shard, random)
    # The index states the damaged shard's size, so that the reader does not stop at a mismatch.
    info = one.info._replace(raw_data=one.info.raw_data._replace(bytes=len(data)))
    return _open_and_read(data, info, one.dataset.schema, random)


def attack_index(name: str, random: Random) -> bool:
    """Read a dataset with a damaged index; return whether the index was accepted."""
    one = target(name)
    if random.random() < 0.7:
        data = json.dumps(damaged_json(json.loads(one.index), random)).encode()
    else:
        data = damaged_bytes(one.index, random)
    try:
        index = Index.from_bytes(data, url="file:///index.json")
        assert Index.from_bytes(index.to_bytes(), url="file:///index.json") == index
        dataset = Dataset(one.dataset.location, index)
        schema = dataset.schema
    except MDStormError:
        return False
    for info in index.shards:
        try:
            content = _stored(dataset, info)
        except (OSError, ValueError):
            continue
        _open_and_read(content, info, schema, random)
    return True


def attack_compression(codec: str, random: Random) -> bool:
    """Decompress a damaged file; return whether it has the expected size."""
    one = target(codec)
    assert one.info.zip_data is not None
    file = Path(one.dataset.location.path, one.info.zip_data.basename)
    size = one.info.raw_data.bytes
    wrong = random.choice((0, 1, size - 1, size + 1, 2**31 - 1, 2**32 - 1))
    expected = random.choice((size, size, size, wrong))
    try:
        data = decompress(codec, damaged_bytes(file.read_bytes(), random), expected)
    except (OSError, ValueError):
        return False
    assert len(data) == expected
    return True


def attack_state(order: str, random: Random) -> bool:
    """Load a damaged state and continue; return whether the state was accepted."""
    options = ReaderOptions(target("fixed").dataset, ORDERS[order], batch_size=2, num_epochs=3)
    loader = Loader(options)
    begun = loader.begin(Consumer())
    segment = next(iter(begun.segments(loader.recorder)))
    begun.record_offset(segment, next(iter(segment.blocks())).offsets[0])
    try:
        loader.load_state_dict(damaged_json(loader.state_dict(), random))
        for segment in loader.begin(Consumer()).segments(loader.recorder):
            sum(len(block.sizes) for block in segment.blocks())
    except (MDStormError, UserWarning):  # warning: too few samples for canonical nodes
        return False
    return True


@contextmanager
def _reported() -> Iterator[None]:
    """Suppress mdstorm errors; those about damage must name the damaged file and the remedy."""
    found: MDStormError | None = None
    try:
        yield
    except MDStormError as error:
        found = error
    if isinstance(found, CorruptDatasetError):
        assert found.url in str(found)
        assert "rite the dataset again" in str(found)


def _open_and_read(data: bytes, info: ShardInfo, schema: Schema, random: Random) -> bool:
    try:
        shard = MDSShard(data, info, schema, url="file:///shard.mds")
    except MDStormError:
        return False
    for column, exact_nulls in product(schema, (False, True)):
        with _reported():
            every = np.arange(shard.num_samples)
            values = shard.read(every, [column.name], exact_nulls=exact_nulls)[column.name]
            assert len(values) == shard.num_samples
            if column.is_late:
                assert len(decode_late(values, column)) == shard.num_samples
    rows = sorted({random.randrange(info.samples) for _ in range(2)} if info.samples else ())
    with _reported():
        batch = shard.read(np.array(rows, np.int64), schema.names)
        assert all(len(values) == len(rows) for values in batch.values())
    for row in rows:
        with _reported():
            assert list(shard.sample(row)) == list(schema.names)
    return True


#: Attacks, their target names, and the number of cases for each target.
ATTACKS = (
    (attack_shard, NAMES, 10),
    (attack_index, NAMES, 6),
    (attack_compression, CODECS, 20),
    (attack_state, ORDERS, 14),
)
