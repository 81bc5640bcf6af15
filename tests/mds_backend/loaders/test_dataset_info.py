"""What a dataset tells of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend import StreamingDataset


def test_what_is_in_the_default_cache_directory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cached"))
    written = write_numbers(tmp_path / "data", 10, tasks=2, compression="zstd")
    dataset = StreamingDataset(remote=written.url, batch_size=2)
    assert dataset.cache_usage == 0
    assert dataset[0]
    assert dataset.cache_usage == written.index.shards[0].raw_data.bytes
