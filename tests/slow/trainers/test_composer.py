"""Composer's Trainer, whose checkpoints contain the dataset's position."""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import STAND_IN, Run, Start, each_once, fork, launch

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def composer_is_imported() -> Iterator[None]:
    """Import Composer once for all forks, because it takes a long time."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.syspath_prepend(STAND_IN)
        import composer.callbacks  # noqa: F401
    yield
    for name in set(sys.modules) - before:
        if name.startswith("torchvision"):
            del sys.modules[name]


def launch_composer(program: str, *args: object, at: Path, processes: int = 1) -> Run:
    """Run a program like `launch`, but let Composer start the processes."""
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "composer.cli.launcher", "--nproc", str(processes)]
    path = os.pathsep.join([STAND_IN, *filter(None, [os.environ.get("PYTHONPATH")])])
    return launch(program, *args, at=at, launcher=launcher, PYTHONPATH=path)


def fit(
    url: str,
    kind: str,
    at: Path,
    *args: object,
    processes: int,
    duration: str,
    start: Start = fork,
) -> Run:
    """Train and write checkpoints, or resume from one."""
    return start("composer_fit.py", url, kind, duration, *args, at=at, processes=processes)


@pytest.mark.parametrize(
    ("start", "kind", "processes", "duration"),
    [
        (launch_composer, "converter", 2, "2ep"),
        (fork, "converter", 1, "2ep"),
        (fork, "converter", 2, "2ep"),
        (fork, "streaming", 1, "2ep"),
        (fork, "streaming", 2, "2ep"),
        # The loader has no length, so Composer accepts only durations in batches.
        (fork, "transform", 1, "22ba"),
        (fork, "transform", 2, "12ba"),
    ],
)
def test_composer_reads_each_row_once_and_resumes_within_an_epoch(
    url: str, tmp_path: Path, start: Start, kind: str, processes: int, duration: str
) -> None:
    how: Any = {"processes": processes, "duration": duration, "start": start}
    fit(url, kind, tmp_path, "train", **how)
    run = fit(url, kind, tmp_path, "resumed", tmp_path / "0-4.pt", **how)

    # MosaicML's order repeats a row to give all ranks the same number of rows.
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
def test_composer_resumes_from_end_of_epoch_with_next_epoch(
    url: str, tmp_path: Path, kind: str, processes: int, checkpoint: str
) -> None:
    how: Any = {"processes": processes, "duration": "22ba" if kind == "transform" else "2ep"}
    fit(url, kind, tmp_path, "train", **how)
    run = fit(url, kind, tmp_path, "resumed", tmp_path / checkpoint, **how)

    assert run.recorded("train0").batches != run.recorded("train1").batches
    assert run.recorded("resumed1").batches == run.recorded("train1").batches
    assert not run.recorded("resumed2").batches


@pytest.mark.parametrize(
    ("kind", "before", "after"), [("converter", 1, 2), ("converter", 2, 1), ("streaming", 2, 1)]
)
def test_composer_resumes_with_different_world_size(
    url: str, tmp_path: Path, kind: str, before: int, after: int
) -> None:
    fit(url, kind, tmp_path, "train", processes=before, duration="2ep")
    checkpoint = tmp_path / "0-4.pt"
    run = fit(url, kind, tmp_path, "resumed", checkpoint, processes=after, duration="2ep")

    run.check_resumes_in_another_world(ROWS)
