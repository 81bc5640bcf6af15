"""Damages metadata files, manifests and delete files of Iceberg tables, and reads the tables."""

import atexit
import gzip
import json
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory, mkdtemp

import numpy as np
import pyarrow as pa
import tests.kit.iceberg_tables as tables
from tests.kit.parquet_files import open_parquet
from tests.slow.fuzz.mutations import damaged_bytes, damaged_json

from mdstorm_backend.errors import MDStormError

_ROWS = 40
#: Kinds of delete files; there is one table for each kind.
KINDS = ("positions", "vectors")


@cache
def _table(kind: str) -> Path:
    folder = mkdtemp()
    atexit.register(rmtree, folder, ignore_errors=True)
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    table = tables.catalog(Path(folder)).create_table("n.t", schema)
    for start in (0, _ROWS):
        numbers = np.arange(start, start + _ROWS)
        table.append(pa.table({"n": numbers, "text": [f"text {n}" for n in numbers.tolist()]}))
    write = tables.positions if kind == "positions" else tables.vectors
    tables.commit(table, write(table, {path: [1, 5, 30] for path in tables.live_files(table)}))
    return tables.path_of(table)


def attack_metadata(kind: str, random: Random) -> bool:
    """Read a table with a damaged metadata file; return whether it could be opened."""
    with TemporaryDirectory() as folder:
        metadata = _copied(kind, folder)
        content = metadata.read_bytes()
        choice = random.random()
        if choice < 0.2:
            metadata.write_bytes(damaged_bytes(content, random))
        elif choice < 0.3:
            metadata.write_bytes(damaged_bytes(gzip.compress(content), random))
        else:
            metadata.write_text(json.dumps(damaged_json(json.loads(content), random)))
        return _open_and_read(metadata)


def attack_deletes(kind: str, random: Random) -> bool:
    """Read a table with a damaged delete file; return whether it could be opened."""
    pattern = "data/*-deletes.parquet" if kind == "positions" else "data/*.puffin"
    with TemporaryDirectory() as folder:
        metadata = _copied(kind, folder)
        file = random.choice(sorted(metadata.parents[1].glob(pattern)))
        file.write_bytes(damaged_bytes(file.read_bytes(), random))
        return _open_and_read(metadata)


def attack_manifests(kind: str, random: Random) -> bool:
    """Read a table with a damaged manifest or manifest list; return whether it could be opened."""
    with TemporaryDirectory() as folder:
        metadata = _copied(kind, folder)
        file = random.choice(sorted(metadata.parent.glob("*.avro")))
        file.write_bytes(damaged_bytes(file.read_bytes(), random))
        return _open_and_read(metadata)


def _copied(kind: str, folder: str) -> Path:
    """Copy a table, and return the latest metadata file in the copy."""
    source = _table(kind)
    table = copytree(source, Path(folder, "table"))
    return max(table.glob("metadata/*.metadata.json"))


def _open_and_read(metadata: Path) -> bool:
    warnings.simplefilter("ignore")
    try:
        dataset = open_parquet(str(metadata))
    except MDStormError:
        return False
    for number in range(len(dataset.row_groups)):
        shard = dataset.shard(number)
        for name in dataset.schema.names:
            with suppress(MDStormError, UnicodeDecodeError):  # strings may be invalid UTF-8
                assert len(shard.decoded([name])[name]) == shard.num_samples <= _ROWS
    return True


#: Attacks, their target names, and the number of cases for each target.
ATTACKS = (
    (attack_metadata, KINDS, 12),
    (attack_deletes, KINDS, 16),
    (attack_manifests, KINDS, 8),
)
