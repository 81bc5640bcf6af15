"""A training loop of the user's own, without a framework, under torchrun."""

from pathlib import Path

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.launching import Delivered, each_once, launch, torchrun

pytestmark = pytest.mark.long


def train(url: str, at: Path, number: int, processes: int, steps: int = 0) -> Delivered:
    """Go on for so many steps, or to the end, where the run before has stopped."""
    states = [at / f"state-{n}.pt" for n in (number, number + 1)]
    run = launch(
        "plain_torch.py",
        *(url, "auto", steps, *states),
        at=at / f"run-{number}",
        launcher=torchrun(processes),
    )
    return run.delivered()


def test_the_ranks_of_torchrun_read_every_row_once(url: str, tmp_path: Path) -> None:
    delivered = train(url, tmp_path, 0, processes=2)
    assert delivered.rows == each_once(ROWS)
    assert delivered.steps == [11, 11]


def test_the_state_of_rank_0_goes_on_with_more_ranks_and_with_fewer(
    url: str, tmp_path: Path
) -> None:
    runs = [
        train(url, tmp_path, 0, processes=2, steps=4),
        train(url, tmp_path, 1, processes=3, steps=2),
        train(url, tmp_path, 2, processes=1),
    ]
    assert runs[0].rows + runs[1].rows + runs[2].rows == each_once(ROWS)
    assert [run.steps for run in runs] == [[4, 4], [2, 2, 2], [7]]
