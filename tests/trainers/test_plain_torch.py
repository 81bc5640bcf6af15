"""A training loop of the user's own, without a framework."""

from pathlib import Path

from tests.trainers.conftest import ROWS
from tests.trainers.launching import each_once, launch


def test_the_ranks_of_torchrun_read_every_row_once(url: str, tmp_path: Path) -> None:
    run = launch("plain_torch.py", url, "auto", at=tmp_path, processes=2)

    assert run.delivered().rows == each_once(ROWS)
    assert run.delivered().steps == [6, 6]
