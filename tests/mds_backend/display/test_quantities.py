from __future__ import annotations

import pytest

from mdstorm_backend.display import counted, human_bytes, shown_place


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_234_000_000, "1.2 GB"),
        (4e18, "4,000.0 PB"),
    ],
)
def test_bytes_are_written_for_people(size: float, expected: str) -> None:
    assert human_bytes(size) == expected


def test_numbers_go_with_their_nouns() -> None:
    assert [counted(n, "shard") for n in (0, 1, 2000)] == ["0 shards", "1 shard", "2,000 shards"]
    assert [counted(n, "batch", "batches") for n in (1, 2)] == ["1 batch", "2 batches"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///data/part-?.parquet", "file:///data/part-?.parquet"),
        ("/data/a?b=c", "/data/a?b=c"),
        ("abfss://box@account.dfs.core.windows.net/x", None),
        ("s3://me:pass@bucket/x", "s3://me:***@bucket/x"),
        ("s3://me:p/a@ss@bucket/x, s3://other/y", "s3://me:***@bucket/x, s3://other/y"),
        ("https://h/x?sv=2020&Signature=abc%2F#y", "https://h/x?sv=***&Signature=***#y"),
        ("https://h/x?X-Amz-Credential=AKIA&n=1, s3://b/y", None),
    ],
)
def test_nothing_secret_is_shown_of_a_place(url: str, expected: str | None) -> None:
    if expected is None:
        expected = url.replace("AKIA", "***").replace("n=1", "n=***")
    assert shown_place(url) == expected
