"""Shards cut into pieces, and some of the shards."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.compat.selection.parquet_files import column, write
from tests.mds_backend.small_datasets import write_dataset

from mdstorm._selection.shard_views import SplitShards
from mdstorm_backend.read.shard import SampleSource

TABLE = pa.table({"id": pa.array(range(30), pa.int64()), "s": [f"t{i}" for i in range(30)]})


@pytest.fixture(scope="module", params=["parquet", "mds"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Thirty rows in shards of 11, 11 and 8, or of sizes that MDS has chosen."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "parquet":
        return write(directory, TABLE, rows=11)
    return write_dataset(directory, TABLE, {"id": "long", "s": "string"}, shard_size=1300)


#: How Petastorm 0.13.1 cuts a row group of 11 rows.
CUTS = {2: [6, 5], 3: [4, 4, 3], 5: [3, 2, 2, 2, 2], 7: [2, 2, 1, 2, 1, 2, 1], 20: [1] * 11}


@pytest.mark.parametrize("parts", CUTS)
def test_row_groups_are_cut_as_in_petastorm(parts: int, tmp_path: Path) -> None:
    split = SplitShards(write(tmp_path, TABLE.slice(0, 11)), parts)
    assert list(split.shard_sizes) == CUTS[parts]
    assert column(split, "id") == list(range(11))


@pytest.mark.parametrize("parts", [1, 2, 4, 50])
def test_pieces_hold_every_row_once(source: SampleSource, parts: int) -> None:
    assert len(source.shard_sizes) > 1
    split = pickle.loads(pickle.dumps(SplitShards(source, parts)))  # noqa: S301  # our own
    assert len(split) == sum(split.shard_sizes) == 30
    assert split.bounds.tolist() == [0, *np.cumsum(split.shard_sizes)]
    assert column(split, "id") == list(range(30))
    assert [split.sample(i)["s"] for i in range(30)] == TABLE["s"].to_pylist()
    assert split[-1]["id"] == 29
    assert sum(split.shard_bytes) <= split.nbytes + len(split.shard_sizes)
    assert split.schema == source.schema
    assert split.is_mapped == source.is_mapped
    assert len({split.fingerprint, source.fingerprint, SplitShards(source, 3).fingerprint}) == 3


def test_a_piece_reads_rows_and_samples_of_its_own(source: SampleSource) -> None:
    split = SplitShards(source, 2)
    piece, start = split.shard(1), split.shard_sizes[0]
    rows = np.array([0, 2])
    assert piece.read(rows, ["id"])["id"].tolist() == [start, start + 2]
    assert piece.sample(1, ["id"]) == {"id": start + 1}
    with pytest.raises(IndexError, match="of"):
        piece.sample(piece.num_samples)
    found = split.find_open(1)
    assert found is not None
    assert found.num_samples == piece.num_samples
    piece.will_need()
    piece.make_ready(["id"])
    decoded = piece.decoded(["id"])
    own = list(range(start, start + piece.num_samples))
    assert decoded is None or decoded["id"].tolist() == own
