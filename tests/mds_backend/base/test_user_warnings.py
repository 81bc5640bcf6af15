from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import Where, torch_loader
from tests.mds_backend.small_datasets import write_numbers


@pytest.mark.parametrize("read", [list, lambda loader: next(iter(loader), None)])
def test_a_warning_points_to_the_code_that_reads(tmp_path: Path, read: Any) -> None:
    empty, numbers = write_numbers(tmp_path / "empty", 0), write_numbers(tmp_path / "numbers", 10)
    none_left = torch_loader(numbers, transform=Where(lambda number: number < 0))
    for stream in (torch_loader(empty), empty.batches(4), torch_loader(empty).dataset, none_left):
        text = "the transform left no rows" if stream is none_left else "the dataset has no rows"
        with pytest.warns(UserWarning, match=text) as recorded:
            assert not read(stream)
        assert {message.filename for message in recorded} == {__file__}
