import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import Where, torch_loader
from tests.mds_backend.small_datasets import write_numbers


def where(recorded: list[warnings.WarningMessage]) -> set[str]:
    return {message.filename for message in recorded}


@pytest.mark.parametrize("read", [list, lambda loader: next(iter(loader), None)])
def test_a_warning_points_to_the_code_that_reads(tmp_path: Path, read: Any) -> None:
    dataset = write_numbers(tmp_path, 0)
    for stream in (torch_loader(dataset), dataset.batches(4), torch_loader(dataset).dataset):
        with pytest.warns(UserWarning, match="the dataset has no rows") as recorded:
            read(stream)
        assert where(list(recorded)) == {__file__}


def test_a_transform_that_returned_nothing_is_named(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    with pytest.warns(UserWarning, match="the transform left no rows") as recorded:
        assert list(torch_loader(dataset, transform=Where(lambda number: number < 0))) == []
    assert where(list(recorded)) == {__file__}
