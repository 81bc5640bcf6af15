from typing import Any

import pytest

from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.errors import InvalidArgumentError


def test_sizes_are_numbers_or_texts_with_units_of_1024() -> None:
    texts = {"100": 100, "100b": 100, "1kb": 1024, " 10 KB ": 10240, "1.5mb": 3 << 19}
    sizes: dict[Any, int] = {1: 1, 2.0: 2, **texts, "1e2kb": 102400, "10gb": 10 << 30}
    for value, size in {**sizes, "2TB": 2 << 40}.items():
        assert CacheOptions(limit=value).limit == size
    for value in [0, -1, "", "0", "-1", "1 kbit", "many", "1..2kb", True, [], 1e400]:
        with pytest.raises(InvalidArgumentError, match="cache limit must be a positive number"):
            CacheOptions(limit=value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"retry": 0}, "retry must be an integer of at least 1"),
        ({"retry": 1.5}, "retry must be an integer"),
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"timeout": float("nan")}, "timeout must be a positive number"),
        ({"validate_hash": "sha0"}, "sha0"),
        ({"directory": "s3://bucket/cache"}, "must be a local path, found 's3://bucket/cache'"),
    ],
)
def test_values_outside_their_domain_are_refused(option: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        CacheOptions(**option)
