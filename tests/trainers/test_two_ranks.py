"""Programs whose ranks do not all do the same: right, or told, on two ranks under torchrun."""

from pathlib import Path

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.launching import Run, each_once, launch

in_either_order = pytest.mark.parametrize(
    "order", ["exact", pytest.param("elastic", marks=pytest.mark.long)]
)


def run(program: str, url: str, order: str, at: Path, *, fails: bool = False) -> Run:
    return launch("two_ranks.py", url, program, order, at=at, processes=2, fails=fails)


def check_epochs(found: Run, order: str, epochs: int = 2) -> None:
    """Check that each epoch has each row once; the elastic order repeats one to be even."""
    for epoch in range(epochs):
        delivered = found.delivered(f"epoch{epoch}")
        surplus = delivered.rows - each_once(ROWS)
        assert not each_once(ROWS) - delivered.rows
        assert surplus.total() == (order == "elastic")
        assert len(set(delivered.steps)) == 1


@in_either_order
@pytest.mark.parametrize("program", ["looks_first", "looks_with_a_loader_of_its_own"])
def test_a_rank_that_looks_first_loses_nothing(
    url: str, tmp_path: Path, program: str, order: str
) -> None:
    found = run(program, url, order, tmp_path)
    check_epochs(found, order)
    assert "Warning" not in found.output


@pytest.mark.long
@in_either_order
def test_a_rank_that_looks_at_three_batches_is_told(url: str, tmp_path: Path, order: str) -> None:
    found = run("looks_at_three", url, order, tmp_path)
    assert "with batches of the epoch before" in found.output
    assert "set_epoch(epoch)" in found.output


@pytest.mark.long
@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_a_seed_for_each_rank_is_told_or_refused(url: str, tmp_path: Path, order: str) -> None:
    found = run("seeds", url, order, tmp_path, fails=order == "elastic")
    assert "with seed 4" in found.output


@in_either_order
def test_transforms_leave_all_ranks_equally_many_batches(
    url: str, tmp_path: Path, order: str
) -> None:
    found = run("transforms", url, order, tmp_path)
    check_epochs(found, order)
