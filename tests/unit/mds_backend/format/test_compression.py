"""Compressing and hashing whole files."""

import bz2
import gzip
import hashlib
import tracemalloc
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend import errors
from mdstorm_backend.format.compression import (
    HASH_NAMES,
    check_compression,
    check_hashes,
    compress,
    decompress,
    decompress_unsized,
    digest,
    digests,
)
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES

NAMES = ["zstd", "gz", "bz2", "br", "snappy"]
LEVELS = ["zstd:1", "zstd:22", "gz:0", "gz:9", "bz2:1", "bz2:9", "br:0", "br:11"]


@given(st.sampled_from([*NAMES, *LEVELS]), st.lists(st.binary(max_size=50), min_size=1, max_size=3))
def test_data_round_trips_through_every_codec(compression: str, buffers: list[bytes]) -> None:
    data = b"".join(buffers)
    packed = compress(compression, [memoryview(buffer) for buffer in buffers])
    assert bytes(decompress(compression, packed, len(data))) == data


@given(st.sampled_from(NAMES), st.binary(max_size=300), st.integers(-3, 3), st.booleans())
def test_decompressed_size_different_from_index_raises_error(
    compression: str, data: bytes, difference: int, repeated: bool
) -> None:
    data = data * 50 if repeated else data
    packed = compress(compression, [data])
    if difference == 0:
        assert bytes(decompress(compression, packed, len(data))) == data
    else:
        with pytest.raises((ValueError, OSError)):
            decompress(compression, packed, len(data) + difference)


@pytest.mark.parametrize("compression", NAMES)
def test_damaged_compressed_data_raises_error(compression: str) -> None:
    data = b"".join(b"%d," % (i * i) for i in range(3000))
    packed = compress(compression, [data])
    for damaged in (b"", packed[: len(packed) // 2], packed[:-1], b"x" * 100):
        with pytest.raises((ValueError, OSError)):
            decompress(compression, damaged, len(data))
        if damaged:
            with pytest.raises((ValueError, OSError)):
                decompress_unsized(compression, damaged, 1 << 20)


@pytest.mark.parametrize("compression", NAMES)
def test_decompression_stops_at_the_stated_size(compression: str) -> None:
    packed = compress(compression, [bytes(16 << 20)])
    whole = bytes(compress(compression, [bytes(1000)]))
    for file, size in ((packed, 1000), (whole + bytes(packed), 1000), (whole, 1 << 45)):
        tracemalloc.start()
        try:
            with pytest.raises((ValueError, OSError)):
                decompress(compression, file, size)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 8 << 20


def test_gz_and_bz2_files_with_several_members_are_read() -> None:
    for compression in ("gz", "bz2"):
        packed = b"".join(compress(compression, [text]) for text in (b"one ", b"two"))
        assert bytes(decompress(compression, packed, 7)) == b"one two"
    with pytest.raises(ValueError, match="a bz2 file is damaged"):
        decompress("bz2", 3 * bz2.compress(b"") + packed, 7)


def test_standard_library_reads_gz_and_bz2_files() -> None:
    assert gzip.decompress(compress("gz", [b"abc"])) == b"abc"
    assert bz2.decompress(compress("bz2", [b"abc"])) == b"abc"


@pytest.mark.parametrize("name", ["zstd", "gz", "bz2", "br"])
def test_compression_level_is_passed_to_the_codec(name: str) -> None:
    data = [b"".join(b"%d," % (i * i) for i in range(3000))]
    lowest, highest = {"zstd": (1, 22), "gz": (1, 9), "bz2": (1, 9), "br": (0, 11)}[name]
    assert compress(f"{name}:{highest}", data) != compress(f"{name}:{lowest}", data)


@pytest.mark.parametrize(
    "compression",
    ["", "lz4", "deflate", "gzip", "zstd:0", "zstd:23", "gz:10", "bz2:0", "br:12", "snappy:1",
     "zstd:", "zstd:x", "zstd:-1", "ZSTD", " zstd", "zstd:1:2"],
)  # fmt: skip
def test_unknown_codec_or_level_raises_error_listing_known_codecs(compression: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"zstd:1…22.*snappy") as caught:
        check_compression(compression)
    assert repr(compression) in str(caught.value)


NOISE = np.random.default_rng(0).bytes((1 << 20) + 1)


@pytest.mark.matrix
@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("data", [b"", b"x", bytes(3 << 20), NOISE], ids=len)
def test_files_of_unknown_size_are_decompressed(codec: str, data: bytes) -> None:
    assert bytes(decompress_unsized(codec, compress(codec, [data]), len(data))) == data


def test_impossible_size_in_compressed_header_raises_error() -> None:
    with pytest.raises(ValueError, match="states 4294967295 bytes, which 9 compressed bytes"):
        decompress_unsized("snappy", b"\xff\xff\xff\xff\x0fabcd", MAX_SHARD_BYTES)


OF_MOSAIC = [
    *("blake2b", "blake2s", "md5", "sha1", "sha224", "sha256", "sha384"),
    *("sha3_224", "sha3_256", "sha3_384", "sha3_512", "sha512"),
    *("xxh128", "xxh32", "xxh3_128", "xxh3_64", "xxh64"),
]


def test_all_hashes_are_computed_in_one_pass() -> None:
    assert sorted(HASH_NAMES) == OF_MOSAIC
    libraries: dict[str, Any] = {n: xxhash if n[:3] == "xxh" else hashlib for n in OF_MOSAIC}
    expected = {n: getattr(libraries[n], n)(b"one two").hexdigest() for n in OF_MOSAIC}
    buffers = iter([b"one", bytearray(b" "), memoryview(b"two")])
    assert digests(OF_MOSAIC, buffers) == expected
    assert digest("md5", [b"one two"]) == expected["md5"]


def test_hash_names_must_be_unique_and_sorted() -> None:
    for names, remedy in ((["sha1", "md5"], "['md5', 'sha1']"), (["md5", "md5"], "['md5']")):
        with pytest.raises(
            errors.InvalidArgumentError, match="unique and in sorted order"
        ) as caught:
            check_hashes(names)
        assert str(caught.value).endswith(f"write {remedy}")


@pytest.mark.parametrize("name", ["", "MD5", "crc32", "shake_128", "new", "xxh"])
def test_unknown_hash_name_raises_error_listing_known_names(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"blake2b.*xxh64") as caught:
        check_hashes([name])
    assert repr(name) in str(caught.value)
    with pytest.raises(errors.InvalidArgumentError):
        digest(name, [])


def test_single_hash_name_is_not_split_into_letters() -> None:
    with pytest.raises(errors.ArgumentTypeError, match=r"\['md5'\]"):
        check_hashes("md5")


def test_xxhash_names_without_the_library_raise_missing_dependency_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xxhash", None)
    assert check_hashes(["md5"]) == ("md5",)
    with pytest.raises(errors.MissingDependencyError, match=r'pip install "mdstorm\[xxhash\]"'):
        check_hashes(["xxh64"])
