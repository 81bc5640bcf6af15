"""`LocalDataset`: samples by number, for PyTorch's own loaders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend import LocalDataset, MDSWriter
from mdstorm_backend.errors import DatasetNotFoundError, InvalidArgumentError, UnsafeTypeError

ROWS = 40


@pytest.fixture(params=[None, "zstd"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    write_numbers(tmp_path / "data" / "train", ROWS, tasks=4, compression=request.param)
    return str(tmp_path / "data")


def numbers(samples: Any) -> Any:
    return [numbers(s) if isinstance(s, list) else int(s["number"]) for s in samples]


def test_samples_are_found_by_number(directory: str) -> None:
    dataset = LocalDataset(directory, "train")
    assert (len(dataset), dataset.size, dataset.num_samples) == (ROWS, ROWS, ROWS)
    assert (dataset.local, dataset.split, len(dataset.shards)) == (directory, "train", 4)
    assert (dataset[3]["number"], dataset[-1]["number"], dataset[np.int64(7)]["number"]) == (
        3,
        39,
        7,
    )
    assert numbers(dataset[5:20:5]) == [5, 10, 15]
    assert numbers(dataset[::-1]) == list(range(ROWS))[::-1]
    assert numbers(dataset[[[1, 2], [3]]]) == [[1, 2], [3]]
    assert numbers(dataset[np.array([4, -1])]) == [4, 39]
    assert dataset.spanner[25] == (2, 5)
    assert numbers(iter(dataset)) == list(range(ROWS))
    for at in (ROWS, -ROWS - 1):
        with pytest.raises(IndexError, match=f"sample {at} of 40"):
            dataset[at]
    with pytest.raises(InvalidArgumentError, match="cannot be indexed by str"):
        dataset["number"]


def test_what_is_not_there_or_not_safe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="there is no dataset"):
        LocalDataset(str(tmp_path / "none"))
    with MDSWriter(columns={"x": "pkl"}, out=str(tmp_path / "pickles")) as writer:
        writer.write({"x": [1]})
    with pytest.raises(UnsafeTypeError):
        LocalDataset(str(tmp_path / "pickles"))[0]
    assert LocalDataset(str(tmp_path / "pickles"), allow_unsafe_types=True)[0] == {"x": [1]}
