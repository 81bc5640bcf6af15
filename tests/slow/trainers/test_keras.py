"""Keras 3 on each of its backends, and TensorFlow's strategies."""

import sys
from pathlib import Path

import pytest
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import PROGRAMS, each_once, launch

TWICE = each_once(ROWS) + each_once(ROWS)
SHARES = ("auto", "sharded by TensorFlow")


@pytest.mark.long
@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_keras_reads_each_row_once_per_epoch_and_gets_number_of_batches(
    url: str, tmp_path: Path, backend: str
) -> None:
    run = launch("keras_fit.py", url, at=tmp_path, KERAS_BACKEND=backend)

    for part in ("fit", "validation", "two epochs in one", "repeated", "resumed"):
        assert run.recorded(part).rows == TWICE, part
    once = ("evaluate", "predict", "class weights", "sample weights")
    for part in (*once, "resumed, one batch ahead"):
        assert run.recorded(part).rows == each_once(ROWS), part
    assert run.recorded("resumed, endless").rows == run.recorded("uninterrupted, endless").rows
    assert run.recorded("predicted").batches == [[[ROWS]]]
    assert run.recorded("endless").steps == [10]
    steps = {
        "fit": [[11], [11]],
        "two epochs in one": [[21]],
        "repeated": [[22]],
        "endless": [[5], [5]],
        "resumed": [[7], [11]],
    }
    assert {part: run.recorded(f"{part}.steps").batches for part in steps} == {
        part: [found] for part, found in steps.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_resumed_keras_fit_reads_whole_epochs_or_load_state_dict_warns(
    url: str, tmp_path: Path, backend: str
) -> None:
    run = launch("keras_resumed.py", url, at=tmp_path, KERAS_BACKEND=backend)

    assert "plain warned: False" in run.output
    for read in ("filters", "predicate", "function", "elastic"):
        assert f"{read} warned: True" in run.output
    for read in ("plain", "filters", "predicate", "function", "elastic"):
        assert run.recorded(f"{read}.steps").batches == [[[5], [11], [11]]], read
    assert run.recorded("repeated.steps").batches == [[[11], [11]]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "processes", "batches"),
    # With several workers, the number of batches is unknown, which TensorFlow reports as -2.
    [("MirroredStrategy", 1, 11), ("MultiWorkerMirroredStrategy", 2, -2)],
)
def test_tensorflow_strategy_replicas_share_the_rows_in_equal_steps(
    url: str, tmp_path: Path, strategy: str, processes: int, batches: int
) -> None:
    cluster = [sys.executable, str(PROGRAMS / "tf_cluster.py"), str(processes)]
    launcher = cluster if processes > 1 else None
    run = launch("keras_strategies.py", url, strategy, at=tmp_path, launcher=launcher)

    for share in SHARES:
        for part in ("fit", "resumed"):
            assert run.recorded(f"{part} {share}").rows == TWICE, (part, share)
        for part in ("evaluate", "distribute"):
            assert run.recorded(f"{part} {share}").rows == each_once(ROWS), (part, share)
        for part in ("fit", "resumed", "evaluate", "distribute"):
            steps = run.recorded(f"{part} {share}").steps
            assert len(steps) == processes
            assert len(set(steps)) == 1, (part, share)
    assert run.recorded("from function").rows == each_once(ROWS)
    assert run.output.count(f"batches of a worker: {batches}\n") == processes
    if processes > 1:
        assert run.recorded("of a reader").rows == each_once(ROWS)
        assert "rows would be lost" in run.output
