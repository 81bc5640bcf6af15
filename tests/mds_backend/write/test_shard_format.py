from __future__ import annotations

import json

import pytest

from mdstorm_backend.errors import WriteError
from mdstorm_backend.write.shard_format import FullShard, ShardFormat


def test_the_header_is_that_of_the_format() -> None:
    format_ = ShardFormat(None, "zstd:1", ("md5",))
    header = format_.header(("a", "é"), ("int8", "str"), None)
    assert header == (
        b'{"column_encodings": ["int8", "str"], "column_names": ["a", "\\u00e9"], '
        b'"column_sizes": [1, null], "compression": "zstd:1", "format": "mds", '
        b'"hashes": ["md5"], "size_limit": null, "version": 2}'
    )
    assert json.loads(format_.header((), (), {"x": 1}))["mdstorm"] == {"x": 1}


def test_a_shard_of_4_gib_is_refused_not_wrapped() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 32

    with pytest.raises(WriteError, match=r"x\.mds would take 4294967296 bytes.* a size limit"):
        FullShard((), (), 1, [Huge()]).pack("x.mds", ShardFormat(None))
