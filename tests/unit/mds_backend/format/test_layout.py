import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.index import FileInfo, ShardInfo
from mdstorm_backend.format.layout import (
    ShardLayout,
    Validity,
    pack_validity,
    parse_header,
    preamble_size,
    unpack_validity,
)

URL = "file:///data/x.mds"


def layout(**encodings: str) -> ShardLayout:
    return ShardLayout(tuple(encodings), tuple(map(parse_encoding, encodings.values())))


def info(samples: int, size: int, encoding: str = "int8", width: int | None = 1) -> ShardInfo:
    return ShardInfo(("a",), (encoding,), (width,), samples, FileInfo("x.mds", size, {}))


def shard(samples: list[bytes], header: bytes = b"{}") -> bytes:
    """Write a shard by hand."""
    start = 4 + 4 * (len(samples) + 1) + len(header)
    offsets = start + np.cumsum([0, *map(len, samples)])
    words = np.array([len(samples), *offsets], "<u4").tobytes()
    return words + header + b"".join(samples)


def parse(data: bytes, samples: int) -> tuple[list[int], dict[str, object]]:
    offsets, extra = parse_header(np.frombuffer(data, np.uint8), info(samples, len(data)), url=URL)
    return offsets.tolist(), extra


def test_opaque_encoding_has_the_size_stated_in_the_index() -> None:
    assert ShardLayout.of(info(0, 0, "pkl", None)).num_variable == 1
    sized = ShardLayout.of(info(0, 0, "later", 24))
    assert sized.is_fixed
    assert sized.record_dtype.itemsize == 24


def test_bitmaps_have_one_bit_per_row_least_significant_first() -> None:
    packed = pack_validity(Validity({"a": np.array([True, False, False] + [False] * 5 + [True])}))
    assert packed["rows"] == {"a": {"count": 9, "bits": "AQE="}}


@pytest.mark.parametrize(
    ("count", "bits"),
    [
        *((count, "AQE=") for count in (17, 8, 1 << 50, -9, 9.0, None)),
        *((9, bits) for bits in ("A!QE=", "AQE", "é", None)),
        (True, "AQ=="),
    ],
)
def test_bitmap_with_wrong_length_raises_error(count: object, bits: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        unpack_validity({"rows": {"a": {"count": count, "bits": bits}}})  # type: ignore[dict-item]


@given(st.lists(st.binary(max_size=5), max_size=6))
def test_shard_header_round_trips(samples: list[bytes]) -> None:
    header = b'{"mdstorm": {"version": 1}}'
    data = shard(samples, header)
    offsets, extra = parse(data, len(samples))
    assert extra == {"version": 1}
    assert offsets[0] == preamble_size(len(samples), header)
    bounds = itertools.pairwise(offsets)
    assert [data[start:stop] for start, stop in bounds] == samples


def change(data: bytes, position: int, word: int) -> bytes:
    return data[:position] + np.array(word, "<u4").tobytes() + data[position + 4 :]


SAMPLES = [b"abc", b"de"]
GOOD = shard(SAMPLES)
DAMAGED = [
    *(change(GOOD, *where) for where in ((0, 3), (4, 0), (4, 5), (8, 1), (8, 4_000_000_000))),
    change(GOOD, 12, len(GOOD) - 1),
    *(shard(SAMPLES, header) for header in (b"{", b"", b"[]", b"\xff", b'{"mdstorm": [1]}')),
    shard(SAMPLES, b'{"a": ' * 300 + b"1" + b"}" * 300),
    shard(SAMPLES, b"[" * 100_000),
    *(b"", b"\x02\x00\x00", GOOD[:12]),
]


@pytest.mark.parametrize("data", DAMAGED, ids=lambda data: f"{len(data)}-{data[:16].hex()}")
def test_damaged_shard_header_raises_error_with_file_name_and_remedy(
    data: bytes,
) -> None:
    with pytest.raises(CorruptDatasetError) as caught:
        parse(data, 2)
    assert caught.value.url == URL
    assert URL in str(caught.value)
    assert "write the dataset again" in str(caught.value)


def test_empty_header_raises_error_about_the_header() -> None:
    with pytest.raises(CorruptDatasetError, match="has an unreadable header"):
        parse(shard(SAMPLES, b""), 2)


@pytest.mark.parametrize("data", [GOOD[:-1], GOOD + b"x"])
def test_shard_with_length_different_from_index_raises_error(data: bytes) -> None:
    message = f"holds {len(data)} bytes, but the index records 23"
    with pytest.raises(CorruptDatasetError, match=message):
        parse_header(np.frombuffer(data, np.uint8), info(2, len(GOOD)), url=URL)
