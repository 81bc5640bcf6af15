"""Hugging Face's Trainer."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.trainers.conftest import EVEN_ROWS, ROWS
from tests.trainers.launching import Delivered, Run, Start, each_once, fork, launch

#: What trainer_with_mixin.py trains on.
PARTS = ("converter", "accumulated", "collated", "loader", "dataset", "workers")


@pytest.mark.parametrize(
    ("start", "processes", "parts"),
    [(fork, 1, PARTS), pytest.param(launch, 2, PARTS[:1], marks=pytest.mark.long)],
)
def test_the_mixin_reads_each_row_once_and_resumes_exactly(
    url: str, even_url: str, start: Start, processes: int, parts: Sequence[str], tmp_path: Path
) -> None:
    run = start("trainer_with_mixin.py", url, even_url, *parts, at=tmp_path, processes=processes)

    _check_training(run, parts, processes)
    for rank in run.delivered("predicted").batches:
        assert sorted(rank[0]) == list(range(ROWS))


@pytest.mark.long
def test_two_processes_train_on_anything_of_ours(url: str, even_url: str, tmp_path: Path) -> None:
    run = launch("trainer_with_mixin.py", url, even_url, *PARTS[1:], at=tmp_path, processes=2)

    _check_training(run, PARTS[1:], 2)


def _check_training(run: Run, parts: Sequence[str], processes: int) -> None:
    steps = EVEN_ROWS // 63 // processes
    for part in parts:
        delivered = run.delivered(part)
        assert delivered.steps == [2 * steps] * processes, part
        epochs = [
            Delivered([rank[:steps] for rank in delivered.batches]),
            Delivered([rank[steps:] for rank in delivered.batches]),
        ]
        for epoch in epochs:
            assert epoch.rows == each_once(EVEN_ROWS), part
        assert epochs[0].batches != epochs[1].batches, part


@pytest.mark.long
def test_a_checkpoint_of_another_world_is_refused(url: str, even_url: str, tmp_path: Path) -> None:
    for processes, part in ((2, "converter"), (1, "refused")):
        run = launch("trainer_with_mixin.py", url, even_url, part, at=tmp_path, processes=processes)

    assert not run.delivered("refused").rows


@pytest.mark.long
def test_the_trainer_alone_reads_a_dataset_in_one_process(url: str, tmp_path: Path) -> None:
    run = launch("trainer_alone.py", url, at=tmp_path)

    assert run.delivered().rows == each_once(ROWS)


@pytest.mark.long
def test_the_trainer_alone_is_refused_in_two_processes(url: str, tmp_path: Path) -> None:
    run = launch("trainer_alone.py", url, at=tmp_path, processes=2, fails=True)

    assert "class MyTrainer(StreamingTrainerMixin, Trainer)" in run.output
    assert not run.delivered().rows
