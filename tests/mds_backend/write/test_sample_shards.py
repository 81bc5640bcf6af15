"""Where one shard ends and the next begins."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.shard_decoder import DecodedShard

from mdstorm_backend.errors import EncodingError
from mdstorm_backend.write import sample_shards
from mdstorm_backend.write.sample_shards import SampleShards
from mdstorm_backend.write.shard_format import FullShard, ShardFormat


def cut(values: list[bytes], limit: int | None, extra: dict[str, Any] | None = None) -> list[bytes]:
    shards: list[FullShard] = []
    writer = SampleShards({"v": "bytes"}, ShardFormat(limit), shards.append, extra)
    for value in values:
        writer.write({"v": value})
    writer.flush()
    writer.flush()
    for shard in shards:
        assert (shard.names, shard.encodings) == (("v",), ("bytes",))
    return [b"".join(shard.content) for shard in shards]


def expected_counts(values: list[bytes], limit: int | None, empty: int) -> list[int]:
    """The rule of the format, less the empty shard before a first sample that is too large."""
    counts, used = [0], empty
    for value in values:
        need = 4 + len(value) + 4
        if limit and used + need > limit:
            counts.append(0)
            used = empty
        counts[-1] += 1
        used += need
    return [count for count in counts if count]


@given(
    st.lists(st.integers(0, 200).map(bytes), max_size=40),
    st.none() | st.integers(1, 1500),
)
def test_shards_end_where_the_next_sample_would_not_fit(
    values: list[bytes], limit: int | None
) -> None:
    shards = cut(values, limit)
    decoded = [DecodedShard(shard) for shard in shards]
    assert [row["v"] for shard in decoded for row in shard.rows] == values
    empty = 4 + 4 + len(ShardFormat(limit).header(("v",), ("bytes",), None))
    counts = [len(shard.rows) for shard in decoded]
    assert counts == expected_counts(values, limit, empty)
    for shard, count in zip(shards, counts, strict=True):
        assert limit is None or len(shard) <= limit or count == 1


def test_without_a_limit_a_shard_keeps_to_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_shards, "MAX_SHARD_BYTES", 1000)
    shards = cut([bytes(300)] * 5, None)
    assert [len(DecodedShard(shard).rows) for shard in shards] == [2, 2, 1]
    with pytest.raises(EncodingError, match=r"a sample takes 1004 bytes.* 4 GiB"):
        cut([bytes(1000)], None)
