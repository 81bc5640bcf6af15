import hashlib
from typing import Any

import pytest
import xxhash

from mdstorm_backend.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    MDStormError,
    MissingDependencyError,
)
from mdstorm_backend.format.compression import HASH_NAMES, check_hashes, digest, digests
from mdstorm_backend.format.shard_info import parse_size_limit

OF_MOSAIC = [
    *("blake2b", "blake2s", "md5", "sha1", "sha224", "sha256", "sha384"),
    *("sha3_224", "sha3_256", "sha3_384", "sha3_512", "sha512"),
    *("xxh128", "xxh32", "xxh3_128", "xxh3_64", "xxh64"),
]


def test_the_names_are_those_of_the_format() -> None:
    assert sorted(HASH_NAMES) == OF_MOSAIC


@pytest.mark.parametrize("name", OF_MOSAIC)
def test_a_digest_is_that_of_the_joined_buffers(name: str) -> None:
    library: Any = xxhash if name.startswith("xxh") else hashlib
    expected = getattr(library, name)(b"one two").hexdigest()
    assert digest(name, [b"one", bytearray(b" "), memoryview(b"two")]) == expected
    assert digests([name], [b"one two"]) == {name: expected}


def test_several_digests_come_from_one_pass() -> None:
    buffers = iter([b"a", b"b"])
    assert digests(["md5", "xxh64"], buffers) == {
        "md5": hashlib.md5(b"ab").hexdigest(),
        "xxh64": xxhash.xxh64(b"ab").hexdigest(),
    }


@pytest.mark.parametrize(
    ("names", "remedy"),
    [(["sha1", "md5"], "['md5', 'sha1']"), (["md5", "md5"], "['md5']")],
    ids=["order", "twice"],
)
def test_names_must_be_unique_and_sorted(names: list[str], remedy: str) -> None:
    with pytest.raises(InvalidArgumentError, match="unique and in sorted order") as caught:
        check_hashes(names)
    assert str(caught.value).endswith(f"write {remedy}")
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["", "MD5", "crc32", "shake_128", "new", "xxh"])
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"blake2b.*xxh64") as caught:
        check_hashes([name])
    assert repr(name) in str(caught.value)
    with pytest.raises(InvalidArgumentError):
        digest(name, [])


def test_a_single_name_is_not_taken_apart() -> None:
    with pytest.raises(ArgumentTypeError, match=r"\['md5'\]"):
        check_hashes("md5")


def test_without_xxhash_its_names_are_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xxhash", None)
    assert check_hashes(["md5"]) == ("md5",)
    with pytest.raises(MissingDependencyError, match=r'pip install "mdstorm\[xxhash\]"') as caught:
        check_hashes(["xxh64"])
    assert isinstance(caught.value, MDStormError)


@pytest.mark.parametrize(
    ("value", "size"),
    [(67_108_864, 1 << 26), (1000.9, 1000), ("1kb", 1024), ("1KB", 1024), ("1.5mb", 3 << 19),
     (" 10 kb ", 10_240), ("1e2kb", 102_400), ("100b", 100), ("100", 100), ("3gb", 3 << 30),
     ((1 << 32) - 1, (1 << 32) - 1), (None, None), (0, None), ("0kb", None)],
)  # fmt: skip
def test_sizes_are_numbers_and_texts(value: Any, size: int | None) -> None:
    assert parse_size_limit(value) == size


@pytest.mark.parametrize("value", ["", "kb", "1 parsec", "1xb", "b", "--1", [], "nankb"])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="unsupported value or suffix") as caught:
        parse_size_limit(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [-1, "-1kb", 1 << 32, "4gb", "1tb"])
def test_sizes_that_no_shard_can_have_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"greater than zero and less than 2\*\*32"):
        parse_size_limit(value)
