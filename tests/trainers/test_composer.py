"""Composer's Trainer, whose checkpoints contain the position of the dataset."""

import os
import sys
from pathlib import Path

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.launching import Run, each_once, launch

#: Composer imports torchvision, whose wheels do not load here.
STAND_IN = str(Path(__file__).parents[1] / "stand_in")

pytestmark = pytest.mark.long


def fit(url: str, kind: str, at: Path, *args: object, processes: int, duration: str) -> Run:
    """Train and write checkpoints, or resume from one; Composer starts the processes."""
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "composer.cli.launcher", "--nproc", str(processes)]
    return launch(
        "composer_fit.py",
        *(url, kind, duration, *args),
        at=at,
        launcher=launcher,
        PYTHONPATH=os.pathsep.join([STAND_IN, *filter(None, [os.environ.get("PYTHONPATH")])]),
    )


@pytest.mark.parametrize(
    ("kind", "processes", "duration"),
    [
        ("converter", 1, "2ep"),
        ("converter", 2, "2ep"),
        ("streaming", 1, "2ep"),
        ("streaming", 2, "2ep"),
        # On its own, the loader has no length, so Composer refuses to count epochs.
        ("transform", 1, "22ba"),
        ("transform", 2, "12ba"),
    ],
)
def test_composer_reads_each_row_once_and_resumes_within_an_epoch(
    url: str, tmp_path: Path, kind: str, processes: int, duration: str
) -> None:
    fit(url, kind, tmp_path, "train", processes=processes, duration=duration)
    run = fit(
        *(url, kind, tmp_path, "resumed", tmp_path / "0-4.pt"),
        processes=processes,
        duration=duration,
    )

    # In MosaicML's order, all ranks have the same number of rows.
    repeated = ROWS % 2 if kind == "streaming" and processes == 2 else 0
    for epoch in ("train0", "train1"):
        rows = run.recorded(epoch).rows
        assert rows.total() == ROWS + repeated
        assert set(rows) == set(each_once(ROWS))
    run.check_resumes_exactly()


@pytest.mark.parametrize(
    ("kind", "processes", "checkpoint"),
    [
        ("converter", 1, "1-11.pt"),
        ("converter", 2, "1-6.pt"),
        ("streaming", 1, "1-11.pt"),
        ("transform", 1, "1-11.pt"),
    ],
)
def test_composer_resumes_after_an_epoch_with_the_next_one(
    url: str, tmp_path: Path, kind: str, processes: int, checkpoint: str
) -> None:
    how = {"processes": processes, "duration": "22ba" if kind == "transform" else "2ep"}
    fit(url, kind, tmp_path, "train", **how)
    run = fit(url, kind, tmp_path, "resumed", tmp_path / checkpoint, **how)

    assert run.recorded("train0").batches != run.recorded("train1").batches
    assert run.recorded("resumed1").batches == run.recorded("train1").batches
    assert not run.recorded("resumed2").batches


@pytest.mark.parametrize(
    ("kind", "before", "after"), [("converter", 1, 2), ("converter", 2, 1), ("streaming", 2, 1)]
)
def test_composer_resumes_in_another_world(
    url: str, tmp_path: Path, kind: str, before: int, after: int
) -> None:
    fit(url, kind, tmp_path, "train", processes=before, duration="2ep")
    checkpoint = tmp_path / "0-4.pt"
    run = fit(url, kind, tmp_path, "resumed", checkpoint, processes=after, duration="2ep")

    run.check_resumes_in_another_world(ROWS)
