from __future__ import annotations

import numpy as np
from tests.mds_backend.shard_decoder import DecodedShard
from tests.mds_backend.small_datasets import plan

from mdstorm_backend.format.encodings.encoded_column import EncodedColumn
from mdstorm_backend.write.samples import Samples, assemble_samples
from mdstorm_backend.write.shard_buffer import ShardBuffer
from mdstorm_backend.write.shard_format import ShardFormat


def numbers(*values: int | None) -> tuple[list[EncodedColumn], Samples]:
    valid = np.array([value is not None for value in values])
    stored = np.array([value or 0 for value in values], "<i8")
    column = EncodedColumn("n", "int64", fixed=stored, valid=None if valid.all() else valid)
    return [column], assemble_samples([column], len(values))


def buffer(size_limit: int) -> ShardBuffer:
    return ShardBuffer(plan({"n": "long"}), ("n",), ("int64",), ShardFormat(size_limit))


def decode(shard: ShardBuffer) -> list[int | None]:
    return [row["n"] for row in DecodedShard(b"".join(shard.full().content)).rows]


def test_an_empty_buffer_takes_at_least_one_sample() -> None:
    shard = buffer(1)
    assert shard.append(*numbers(7, 8, 9), 0) == 1
    assert shard.append(*numbers(7, 8, 9), 1) == 1
    assert decode(shard) == [7]


def test_samples_are_taken_from_where_they_begin_until_the_shard_is_full() -> None:
    columns, samples = numbers(*range(1000))
    shard = buffer(2000)
    stop = shard.append(columns, samples, 10)
    assert 10 < stop < 1000
    assert shard.samples == stop - 10
    assert decode(shard) == list(range(10, stop))
    assert sum(map(len, shard.full().content)) <= 2000


def test_pieces_of_several_batches_are_joined_with_their_nulls() -> None:
    shard = buffer(1 << 20)
    for piece in (numbers(1, 2), numbers(3, None), numbers(5)):
        shard.append(*piece, 0)
    assert shard.samples == 5
    assert shard.full().null_counts == {"n": 1}
    assert decode(shard) == [1, 2, 3, None, 5]


def test_nulls_of_rows_that_were_not_taken_have_no_bitmap() -> None:
    shard = buffer(1 << 20)
    shard.append(*numbers(None, 2, 3), 1)
    assert shard.full().null_counts == {}
    assert b'"nulls"' not in b"".join(shard.full().content)
    assert decode(shard) == [2, 3]
