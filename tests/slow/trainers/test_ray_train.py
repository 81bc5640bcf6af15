"""Ray Train's TorchTrainer, and the loader that its `prepare_data_loader` returns."""

import sys
from pathlib import Path

import pytest
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import launch

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (2, 1)])
def test_loader_prepared_by_ray_reads_each_row_once_including_batch_fetched_ahead(
    url: str, tmp_path: Path, before: int, after: int
) -> None:
    local = [sys.executable]
    launch("ray_train.py", url, before, "train", at=tmp_path, launcher=local)
    state = tmp_path / "state.json"
    run = launch("ray_train.py", url, after, "resumed", state, at=tmp_path, launcher=local)

    run.check_resumes(ROWS)
