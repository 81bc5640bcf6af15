"""Lightning's Trainer with loaders and datasets passed to `fit`, and with the data module."""

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.kit.frameworks import import_framework
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import SAVED_AT, Run, Start, each_once, fork, launch

# Lightning is imported here once, instead of in each fork.
import_framework("lightning.pytorch")

CHECKPOINT = f"epoch=0-step={SAVED_AT}.ckpt"


#: Runs a program like `launch`, but lets Lightning start the processes.
launch_by_lightning: Start = partial(launch, launcher=[sys.executable])


def fit(
    url: str,
    kind: str,
    at: Path,
    *,
    start: Start | None = None,
    fails: bool = False,
    warning: str = "",
    **options: Any,
) -> Run:
    """Train two epochs, by default in forks of this process; save a checkpoint in the first."""
    if start is None:
        start = launch_by_lightning if options.get("strategy") == "ddp_spawn" else fork
    arguments = {"epochs": 2, "save-at": SAVED_AT, **options}
    named = [f"--{name}={value}" for name, value in arguments.items() if value is not None]
    how = {"processes": options.get("devices", 1), "fails": fails, "warning": warning}
    return start("lightning_fit.py", url, kind, *named, at=at, **how)


def resume(url: str, kind: str, at: Path, **options: Any) -> Run:
    """Resume from the checkpoint in a new process, and train until the second epoch ends."""
    again = {"save-at": None, "resume": at / CHECKPOINT, "part": "resumed"}
    return fit(url, kind, at, **again, **options)


def test_data_module_reads_each_row_once_on_two_processes(url: str, tmp_path: Path) -> None:
    run = fit(url, "module", tmp_path, devices=2, strategy="ddp", **{"save-at": None})

    validated = ("train0_validation", "train1_validation")
    for part in ("train0", "train1", *validated, "test", "predict"):
        assert run.recorded(part).rows == each_once(ROWS), part
        assert run.recorded(part).steps == [6, 6], part
    assert run.recorded("train0").batches != run.recorded("train1").batches
    assert run.recorded(validated[0]).batches == run.recorded(validated[1]).batches


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn", "ddp_notebook"])
def test_each_launcher_gives_shares_where_only_world_size_was_set(
    url: str, tmp_path: Path, strategy: str
) -> None:
    start = partial(launch_by_lightning, WORLD_SIZE="8")  # as `databricks air run` sets it
    run = fit(url, "module", tmp_path, start=start, devices=2, strategy=strategy)
    for part in ("train0", "train1", "train0_validation", "test", "predict"):
        assert run.recorded(part).rows == each_once(ROWS), part


@pytest.mark.long
@pytest.mark.parametrize(
    ("devices", "strategy", "package"),
    [
        (1, "auto", "lightning.pytorch"),
        (2, "ddp", "lightning.pytorch"),
        (2, "ddp_spawn", "pytorch_lightning"),
    ],
)
def test_data_module_resumes_within_an_epoch(
    url: str, tmp_path: Path, devices: int, strategy: str, package: str
) -> None:
    how: dict[str, Any] = {"devices": devices, "strategy": strategy, "package": package}
    how["start"] = launch_by_lightning
    fit(url, "module", tmp_path, **how)
    run = resume(url, "module", tmp_path, **how)

    run.check_resumes_exactly()
    for part in ("train0", "train1", "train0_validation", "resumed0_validation", "test", "predict"):
        assert run.recorded(part).rows == each_once(ROWS), part


@pytest.mark.parametrize(
    "kind",
    [
        "module",
        pytest.param("transform", marks=pytest.mark.long),
        pytest.param("converter", marks=pytest.mark.long),
        pytest.param("streaming", marks=pytest.mark.long),
    ],
)
def test_two_ranks_whose_model_counts_steps_resume_with_their_next_rows(
    url: str, tmp_path: Path, kind: str
) -> None:
    how: dict[str, Any] = {"devices": 2, "strategy": "ddp", "schedule": "yes"}
    fit(url, kind, tmp_path, **how)
    run = resume(url, kind, tmp_path, **how)

    run.check_resumes_exactly()
    if kind != "streaming":  # MosaicML's order repeats a row
        assert run.recorded("train0").rows == each_once(ROWS)
    assert run.recorded("resumed0").batches != run.recorded("resumed1").batches


@pytest.mark.long
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_data_module_with_different_world_size_reads_remaining_rows_then_whole_epochs(
    url: str, tmp_path: Path, before: int, after: int
) -> None:
    fit(url, "module", tmp_path, devices=before)
    run = resume(url, "module", tmp_path, devices=after, **{"count-steps": True})

    run.check_resumes_in_another_world(ROWS)
    assert run.recorded("estimated_steps") == run.recorded("steps")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["converter", "streaming"])
def test_loader_passed_to_fit_with_different_world_size_raises_error(
    url: str, tmp_path: Path, kind: str
) -> None:
    fit(url, kind, tmp_path)
    again = {"save-at": None, "resume": tmp_path / CHECKPOINT, "fails": True}
    run = fit(url, kind, tmp_path, devices=2, **again)

    assert "with world size 1, but the world size is now 2" in run.output
    assert "StreamingDataModule" in run.output


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "devices", "strategy"),
    [
        ("converter", 1, "auto"),
        ("converter", 2, "ddp"),
        ("converter", 2, "ddp_spawn"),
        # If a loader has no length, Lightning fetches a batch ahead.
        ("transform", 1, "auto"),
        ("transform", 2, "ddp_spawn"),
        # This case has a random seed.
        ("all", 1, "auto"),
    ],
)
def test_loader_made_before_the_launch_reads_each_row_once_and_resumes(
    url: str, tmp_path: Path, kind: str, devices: int, strategy: str
) -> None:
    fit(url, kind, tmp_path, devices=devices, strategy=strategy)
    run = resume(url, kind, tmp_path, devices=devices, strategy=strategy)

    run.check_resumes_exactly()
    for epoch in ("train0", "train1"):
        assert run.recorded(epoch).rows == each_once(ROWS)
    assert run.recorded("train0").batches != run.recorded("train1").batches


@pytest.mark.long
@pytest.mark.parametrize("kind", ["module", "converter", "transform", "streaming"])
def test_two_ranks_resume_from_end_of_epoch_with_next_epoch(
    url: str, tmp_path: Path, kind: str
) -> None:
    how = {"devices": 2, "strategy": "ddp", "epochs": 3, "save-at": None, "save-epochs": True}
    fit(url, kind, tmp_path, **how)
    run = fit(url, kind, tmp_path, resume=tmp_path / "epoch=0.ckpt", part="resumed", **how)

    for epoch in (1, 2):
        resumed, trained = (run.recorded(f"{part}{epoch}") for part in ("resumed", "train"))
        assert resumed.batches == trained.batches
    assert run.recorded("train1").batches != run.recorded("train2").batches


@pytest.mark.long
@pytest.mark.parametrize("kind", ["module", "converter"])
def test_different_world_size_resumes_from_end_of_epoch_with_whole_epochs(
    url: str, tmp_path: Path, kind: str
) -> None:
    how = {"epochs": 3, "save-at": None, "save-epochs": True}
    fit(url, kind, tmp_path, **how)
    again = {"resume": tmp_path / "epoch=0.ckpt", "part": "resumed", "strategy": "ddp", **how}
    run = fit(url, kind, tmp_path, devices=2, **again)

    epochs = [run.recorded(f"resumed{epoch}") for epoch in (1, 2)]
    assert [epoch.rows for epoch in epochs] == [each_once(ROWS)] * 2
    assert epochs[0].batches != epochs[1].batches


@pytest.mark.long
def test_explicit_shards_are_not_split_again(url: str, tmp_path: Path) -> None:
    how = {"devices": 2, "strategy": "ddp", "warning": "both read share 0 of 2"}
    fit(url, "explicit", tmp_path, **how)
    run = resume(url, "explicit", tmp_path, **how)

    # Both ranks were configured with the first of two shards.
    assert run.recorded("train0").rows == Counter(2 * list(range((ROWS + 1) // 2)))
    run.check_resumes_exactly()


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
@pytest.mark.parametrize("kind", ["streaming", "plain"])
def test_streaming_dataset_with_workers_reads_its_share_on_each_rank(
    url: str, tmp_path: Path, kind: str, strategy: str
) -> None:
    run = fit(url, kind, tmp_path, devices=2, strategy=strategy)

    for epoch in ("train0", "train1"):
        rows = run.recorded(epoch).rows
        # MosaicML's order repeats a row to make the shares equal.
        assert set(rows) == set(range(ROWS))
        assert rows.total() == ROWS + 1
    if kind == "streaming":  # PyTorch's own loader has no state
        resume(url, kind, tmp_path, devices=2, strategy=strategy).check_resumes_exactly()
