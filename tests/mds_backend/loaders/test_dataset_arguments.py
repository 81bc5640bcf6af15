"""Arguments of `StreamingDataset` that are refused where they are said."""

from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend import ElasticOrder, ExactOrder, StreamingDataset
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, MDStormError


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"workers": -1}, InvalidArgumentError, "workers must be at least 0, found -1"),
        ({"workers": 2.5}, ArgumentTypeError, r"workers must be an integer, found 2\.5"),
        ({"prefetch": True}, ArgumentTypeError, "prefetch must be an integer, found True"),
        ({"prefetch": None}, ArgumentTypeError, "prefetch must be an integer, found None"),
        ({"predownload": "x"}, ArgumentTypeError, "predownload must be an integer, found 'x'"),
        ({"transform": len}, ArgumentTypeError, "transform must .* have an attribute `columns`"),
    ],
)
def test_what_would_fail_later_is_refused_at_once(
    tmp_path: Path, options: dict[str, Any], error: type[MDStormError], text: str
) -> None:
    write_numbers(tmp_path, 10)
    with pytest.raises(error, match=text):
        StreamingDataset(local=str(tmp_path), **options)


@pytest.mark.parametrize("order", [ExactOrder(), ElasticOrder(batch_size=2)])
def test_an_order_and_arguments_for_one_are_refused(
    tmp_path: Path, order: ExactOrder | ElasticOrder
) -> None:
    write_numbers(tmp_path, 10)
    with pytest.raises(InvalidArgumentError, match="shuffle, epoch_size would have no effect"):
        StreamingDataset(local=str(tmp_path), order=order, shuffle=True, epoch_size=5)
    assert len(StreamingDataset(local=str(tmp_path), order=order)) == 10


def test_what_is_in_the_default_cache_directory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cached"))
    written = write_numbers(tmp_path / "data", 10, tasks=2, compression="zstd")
    dataset = StreamingDataset(remote=written.url, batch_size=2)
    assert dataset.cache_usage == 0
    assert dataset[0]
    monkeypatch.setattr("os.path.exists", lambda _: True)  # what another rank evicts at once
    assert dataset.cache_usage == written.index.shards[0].raw_data.bytes
