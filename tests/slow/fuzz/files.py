"""Damages and reads Parquet, Delta, image and array files, which third-party libraries parse."""

import atexit
import io
import json
import warnings
from contextlib import suppress
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from tests.kit.parquet_files import open_parquet
from tests.slow.fuzz.mutations import damaged_bytes, damaged_json

from mdstorm.codecs import CompressedNdarrayCodec, DataframeColumnCodec, NdarrayCodec
from mdstorm.errors import MDStormError as ReaderError
from mdstorm.unischema import UnischemaField
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.format.schema import Column
from mdstorm_backend.parquet import value_bounds
from mdstorm_backend.read.late import object_decoder

_ROWS = 40
_WRITERS: dict[str, dict[str, Any]] = {
    "v1": {"version": "1.0", "compression": "gzip", "use_dictionary": False},
    "v2": {"version": "2.6", "data_page_version": "2.0", "write_page_index": True},
    "int96": {"use_deprecated_int96_timestamps": True, "compression": "none"},
    "bare": {"store_schema": False, "use_dictionary": ["text"]},
}


def _table() -> pa.Table:
    random, numbers = np.random.default_rng(0), np.arange(_ROWS)
    some = numbers % 7 == 3
    return pa.table(
        {
            "int": pa.array(numbers, mask=some),
            "small": pa.array(numbers.astype(np.uint8)),
            "float": pa.array(random.normal(size=_ROWS).astype(np.float32), mask=some),
            "bool": pa.array(some),
            "text": pa.array([f"text {n}" for n in numbers], mask=some),
            "bytes": pa.array([bytes(n % 5) for n in numbers.tolist()]),
            "fixed": pa.array([b"12345"] * _ROWS, pa.binary(5)),
            "decimal": pa.array([Decimal(n) / 100 for n in numbers.tolist()], pa.decimal128(12, 2)),
            "date": pa.array(numbers.astype(np.int32), pa.int32()).cast(pa.date32()),
            "time": pa.array(numbers, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "list": pa.array([[1.0] * (n % 3) for n in numbers.tolist()]),
            "same": pa.array([[n, 2] for n in numbers.tolist()]),
            "nested": pa.array([[[n]] if n % 2 else None for n in numbers.tolist()]),
            "struct": pa.array([{"a": n, "b": [n]} for n in numbers.tolist()]),
        }
    )


@cache
def _parquet(writer: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(_table(), file, row_group_size=15, **_WRITERS[writer])
    return file.getvalue()


@cache
def _delta(kind: str) -> Path:
    from deltalake import DeltaTable, write_deltalake

    directory = mkdtemp()
    atexit.register(rmtree, directory, ignore_errors=True)
    table = Path(directory, kind)
    rows = _table().drop_columns(["small", "struct", "nested", "list"])
    partitions = ["bool"] if kind == "partitioned" else None
    write_deltalake(table, rows, partition_by=partitions)
    write_deltalake(table, rows, mode="append")
    DeltaTable(table).delete("int < 5")
    return table


def attack_parquet(writer: str, random: Random) -> bool:
    """Read a file that is damaged, usually in its footer; return whether it could be opened."""
    data = _parquet(writer)
    if random.random() < 0.7:
        start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        footer = damaged_bytes(data[start:-8], random)
        data = data[:start] + footer + len(footer).to_bytes(4, "little") + data[-4:]
    else:
        data = damaged_bytes(data, random)
    with TemporaryDirectory() as folder:
        Path(folder, "a.parquet").write_bytes(data)
        return _open_and_read(folder)


def attack_delta(kind: str, random: Random) -> bool:
    """Read a table with a damaged log; return whether it could be opened."""
    with TemporaryDirectory() as folder:
        table = copytree(_delta(kind), Path(folder, "table"))
        log = random.choice(sorted(table.glob("_delta_log/*.json")))
        if random.random() < 0.3:
            log.write_bytes(damaged_bytes(log.read_bytes(), random))
        else:
            entries = list(map(json.loads, log.read_text().splitlines()))
            log.write_text("\n".join(map(json.dumps, damaged_json(entries, random))))
        return _open_and_read(str(table))


def _open_and_read(url: str) -> bool:
    warnings.simplefilter("ignore")
    try:
        dataset = open_parquet(url)
    except MDStormError:
        return False
    with suppress(MDStormError):
        value_bounds(dataset, dataset.schema.names)
    for number in range(len(dataset.row_groups)):
        shard = dataset.shard(number)
        # Damaged pages may contain invalid UTF-8, which raises UnicodeDecodeError.
        for name, exact_nulls in product(dataset.schema.names, (False, True)):
            with suppress(MDStormError, UnicodeDecodeError):
                read = shard.decoded([name], exact_nulls=exact_nulls)
                assert len(read[name]) == shard.num_samples
        with suppress(MDStormError, UnicodeDecodeError):
            shard.sample(0)
    return True


#: A column of images.
_COLUMN = Column("image", "png")


@cache
def _image(kind: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 31, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def attack_image(kind: str, random: Random) -> bool:
    """Decode a damaged image; return whether that succeeded."""
    warnings.simplefilter("ignore")
    decode = object_decoder(_COLUMN.parsed_encoding, _COLUMN, "file:///a", "array")
    try:
        pixels = decode(damaged_bytes(_image(kind), random))
    except MDStormError:
        return False
    return bool(pixels.ndim >= 2)


_CODECS = {"npy": NdarrayCodec(), "npz": CompressedNdarrayCodec()}


def attack_array(kind: str, random: Random) -> bool:
    """Decode a damaged array; return whether that succeeded."""
    codec: DataframeColumnCodec = _CODECS[kind]
    field = UnischemaField("a", np.float32, (None, 4), codec, False)
    data = codec.encode(field, np.ones((3, 4), np.float32))
    try:
        array = codec.decode(field, damaged_bytes(bytes(data), random))
    except ReaderError:
        return False
    assert array.nbytes < 1 << 20
    return True


#: Attacks, their target names, and the number of cases for each target.
ATTACKS = (
    (attack_parquet, tuple(_WRITERS), 20),
    (attack_delta, ("plain", "partitioned"), 20),
    (attack_image, ("png", "jpeg", "webp", "gif", "bmp", "tiff"), 2),
    (attack_array, tuple(_CODECS), 4),
)
