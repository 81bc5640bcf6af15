"""Hugging Face's Trainer."""

from pathlib import Path

import pytest
from tests.slow.trainers.conftest import EVEN_ROWS, ROWS
from tests.slow.trainers.launching import NumberedBatches, Start, each_once, fork, launch

#: The parts of trainer_with_mixin.py, each of which records its rows.
PARTS = ("converter", "accumulated", "collated", "loader", "dataset", "workers")


@pytest.mark.parametrize(
    ("start", "processes"), [(fork, 1), pytest.param(launch, 2, marks=pytest.mark.long)]
)
def test_trainer_with_mixin_reads_each_row_once_and_resumes_exactly(
    url: str, even_url: str, start: Start, processes: int, tmp_path: Path
) -> None:
    run = start("trainer_with_mixin.py", url, even_url, *PARTS, at=tmp_path, processes=processes)

    for rank in run.recorded("predicted").batches:
        assert sorted(rank[0]) == list(range(ROWS))
    steps = EVEN_ROWS // 63 // processes
    for part in PARTS:
        recorded = run.recorded(part)
        assert recorded.steps == [2 * steps] * processes, part
        epochs = [
            NumberedBatches([rank[:steps] for rank in recorded.batches]),
            NumberedBatches([rank[steps:] for rank in recorded.batches]),
        ]
        for epoch in epochs:
            assert epoch.rows == each_once(EVEN_ROWS), part
        assert epochs[0].batches != epochs[1].batches, part


@pytest.mark.long
def test_checkpoint_from_different_world_size_raises_error(
    url: str, even_url: str, tmp_path: Path
) -> None:
    for processes, part in ((2, "converter"), (1, "refused")):
        run = fork("trainer_with_mixin.py", url, even_url, part, at=tmp_path, processes=processes)

    assert not run.recorded("refused").rows


@pytest.mark.long
def test_trainer_without_mixin_reads_dataset_only_in_single_process(
    url: str, tmp_path: Path
) -> None:
    alone = ("trainer_with_mixin.py", url, url, "alone")
    assert fork(*alone, at=tmp_path / "1").recorded("alone").rows == each_once(ROWS)
    run = fork(*alone, at=tmp_path / "2", processes=2, fails=True)

    assert "class MyTrainer(StreamingTrainerMixin, Trainer)" in run.output
    assert not run.recorded("alone").rows
