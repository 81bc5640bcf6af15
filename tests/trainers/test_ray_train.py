"""Ray Train's TorchTrainer, and the loader that its `prepare_data_loader` makes."""

import sys
from pathlib import Path

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.launching import each_once, launch

pytestmark = pytest.mark.long


@pytest.mark.parametrize("processes", [1, 2])
def test_a_prepared_loader_reads_every_row_once_and_the_batch_fetched_ahead_is_not_lost(
    url: str, tmp_path: Path, processes: int
) -> None:
    local = [sys.executable]
    launch("ray_train.py", url, processes, "train", at=tmp_path, launcher=local)
    state = tmp_path / "state.json"
    run = launch("ray_train.py", url, processes, "resumed", state, at=tmp_path, launcher=local)

    for epoch in ("train0", "train1"):
        assert run.delivered(epoch).rows == each_once(ROWS)
    run.check_goes_on_exactly()


def test_the_state_of_two_processes_goes_on_in_one(url: str, tmp_path: Path) -> None:
    local = [sys.executable]
    launch("ray_train.py", url, 2, "train", at=tmp_path, launcher=local)
    state = tmp_path / "state.json"
    run = launch("ray_train.py", url, 1, "resumed", state, at=tmp_path, launcher=local)

    run.check_goes_on_in_another_world(ROWS)
