"""Programs whose two ranks behave differently lose no rows."""

from pathlib import Path
from typing import Any

import pytest
from tests.slow.trainers.conftest import EVEN_ROWS, ROWS
from tests.slow.trainers.launching import Run, each_once, fork, launch, torchrun

in_either_order = pytest.mark.parametrize(
    "order", ["exact", pytest.param("elastic", marks=pytest.mark.long)]
)


def run(program: str, url: str, order: str, at: Path) -> Run:
    return fork("two_ranks.py", url, program, order, at=at, processes=2)


def check_epochs(found: Run, order: str, epochs: int = 2, part: str = "epoch") -> None:
    """Check that each epoch has each row once, except for a row that the elastic order repeats."""
    for epoch in range(epochs):
        recorded = found.recorded(f"{part}{epoch}")
        surplus = recorded.rows - each_once(ROWS)
        assert not each_once(ROWS) - recorded.rows
        assert surplus.total() == (order == "elastic")
        assert len(set(recorded.steps)) == 1


@in_either_order
@pytest.mark.parametrize("program", ["peeks_first", "peeks_with_a_separate_loader"])
def test_rank_that_peeks_first_loses_no_rows(
    url: str, tmp_path: Path, program: str, order: str
) -> None:
    check_epochs(run(program, url, order, tmp_path), order)


@in_either_order
def test_ranks_with_transforms_have_equal_batch_counts(
    url: str, tmp_path: Path, order: str
) -> None:
    check_epochs(run("transforms", url, order, tmp_path), order)


#: The records of the programs without mistakes, and the number of epochs in each record.
QUIET = {"validates": 2, "two": 4, "accumulates": 2, "ahead": 3, "persistent": 2, "resumes": 2}


@pytest.mark.long
@in_either_order
def test_correct_programs_do_not_warn(url: str, tmp_path: Path, order: str) -> None:
    found = run("quiet", url, order, tmp_path)
    for part, epochs in QUIET.items():
        check_epochs(found, order, epochs, part)


@pytest.mark.long
@in_either_order
def test_ranks_restarted_by_torchrun_lose_no_rows(
    even_url: str, tmp_path: Path, order: str
) -> None:
    # Otherwise, ranks find Gloo's old addresses in the agent's store and fail to connect to them.
    options: dict[str, Any] = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    options["launcher"] = [*torchrun(2), "--max-restarts=1"]
    program = ("two_ranks.py", even_url, "is_started_again", order)
    found = launch(*program, at=tmp_path, **options)
    found.check_resumes_in_another_world(EVEN_ROWS)


@pytest.mark.parametrize(
    ("processes", "first", "stop"),
    [
        (2, 0, 3),
        *(pytest.param(2 + n % 3, 50 * n, 50 * (n + 1), marks=pytest.mark.long) for n in range(6)),
    ],
)
def test_random_programs_with_filters_and_transforms_lose_no_rows_and_do_not_hang(
    url: str, tmp_path: Path, processes: int, first: int, stop: int
) -> None:
    found = fork("random_worlds.py", url, first, stop, at=tmp_path, processes=processes)
    assert "worlds: " in found.output
