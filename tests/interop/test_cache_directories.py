"""A directory that one library filled is used by the other, down to the last byte."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mdstorm_backend.cache import CacheOptions, read_index, shard_files
from mdstorm_backend.format.index import INDEX_NAME, Index
from mdstorm_backend.storage import Location

_GOLDEN = Path(__file__).parent / "golden"
RunInMosaic = Callable[..., Any]

_DATASETS = ("multi_shard", "compression_zstd", "compression_gz")


def without_shards(dataset: Path) -> Path:
    """Remove everything but the index."""
    for path in dataset.rglob("*"):
        if path.is_file() and path.name != INDEX_NAME:
            path.unlink()
    return dataset


def bring_all(dataset: Path, directory: Path) -> list[bytes]:
    """Open all shards through a cache in the directory."""
    location, options = Location.of(str(dataset)), CacheOptions(directory=str(directory))
    index = Index.from_bytes(read_index(location, options)[0], url="")
    files = shard_files(location, "fingerprint", options)
    return [bytes(files.open(info)) for info in index.shards]


@pytest.mark.long
def test_each_library_uses_what_the_other_brought(
    tmp_path: Path, run_in_mosaic: RunInMosaic
) -> None:
    datasets = [
        Path(shutil.copytree(_GOLDEN / name, tmp_path / "remote" / name)) for name in _DATASETS
    ]
    samples = run_in_mosaic("read.py", tmp_path / "mosaic", *datasets)
    shards = [bring_all(path, tmp_path / "ours" / str(n)) for n, path in enumerate(datasets)]
    for dataset in datasets:
        without_shards(dataset)
    assert run_in_mosaic("read.py", tmp_path / "ours", *datasets) == samples
    for number, dataset in enumerate(datasets):
        assert bring_all(dataset, tmp_path / "mosaic" / str(number)) == shards[number]
