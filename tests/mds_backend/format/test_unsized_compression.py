from __future__ import annotations

import numpy as np
import pytest

from mdstorm_backend.format.compression import compress, decompress_unsized

NOISE = np.random.default_rng(0).bytes(2 << 20)
CODECS = ["zstd", "gz", "bz2", "br", "snappy"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", bytes(3 << 20), NOISE], ids=len)
def test_files_of_unknown_size_are_decompressed(codec: str, data: bytes) -> None:
    assert bytes(decompress_unsized(codec, compress(codec, [data]))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_files_are_errors(codec: str) -> None:
    packed = compress(codec, [NOISE[:1000]])
    for data in (packed[:-10], b"\xff" * 50):
        with pytest.raises((OSError, ValueError)):
            decompress_unsized(codec, data)


def test_a_size_that_cannot_be_true_is_not_believed() -> None:
    with pytest.raises(ValueError, match="states 4294967295 bytes, which cannot lie in 9"):
        decompress_unsized("snappy", b"\xff\xff\xff\xff\x0fabcd")
