"""Fixtures and functions for the tests of MosaicML Streaming."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.common.datasets import NumberAndSayDataset, SequenceDataset, write_mds_dataset

DATASETS = {"sequencedataset": SequenceDataset, "numberandsaydataset": NumberAndSayDataset}


@pytest.fixture
def local_remote_dir(tmp_path: Path) -> tuple[str, str]:
    """Two directories that do not exist yet."""
    return str(tmp_path / "local"), str(tmp_path / "remote")


@pytest.fixture
def compressed_local_remote_dir(tmp_path: Path) -> tuple[str, str, str]:
    """Three directories that do not exist yet."""
    return str(tmp_path / "compressed"), str(tmp_path / "local"), str(tmp_path / "remote")


def get_config_in_bytes(
    format: str,
    size_limit: int,
    column_names: list[str],
    column_encodings: list[str],
    column_sizes: list[int],
    compression: str | None = None,
    hashes: list[str] | None = None,
) -> bytes:
    """Return the header of a shard."""
    header = dict(locals(), version=2, hashes=hashes or [])
    return json.dumps(header, sort_keys=True).encode()


def convert_to_mds(
    out_root: str, dataset_name: str, num_samples: int = 117, offset: int = 0, **options: Any
) -> None:
    """Write one of the datasets as MDS."""
    make = DATASETS[dataset_name.lower()]
    dataset = make(num_samples, offset=offset) if offset else make(num_samples)
    columns = dict(zip(dataset.column_names, dataset.column_encodings, strict=True))
    size_limit = options.pop("size_limit", 1 << 26)
    write_mds_dataset(out_root, columns, dataset, size_limit, **options)


def copy_all_files(source: str, destination: str) -> None:
    """Copy the files in a directory, but not its subdirectories."""
    Path(destination).mkdir(parents=True, exist_ok=True)
    for path in Path(source).iterdir():
        if path.is_file():
            shutil.copy2(path, destination)
