from __future__ import annotations

from typing import Any

import pytest

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.size_limit import parse_size_limit


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
