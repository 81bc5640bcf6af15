"""The recipes of docs/how-to/mlflow.md give the rows of each step of a run with ordinary loops."""

from pathlib import Path
from typing import Any

import pytest
from tests.edge.end_to_end.test_documentation import DOCS, python_blocks, with_own_directories
from tests.edge.pages.page_programs import some

pytestmark = pytest.mark.newest  # the lowest MLflow takes no dataset= of a metric

PAGE = DOCS / "how-to" / "mlflow.md"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    (_, program), *_ = python_blocks(PAGE)
    program = with_own_directories(program, tmp_path).replace("sqlite:///", "file://")
    names: dict[str, Any] = {}
    exec(program.replace("mlflow.db", "runs"), names)
    return names


def replayed(page: Any, rows: Any, tmp_path: Path) -> list[list[int]]:
    """Run the page's recipe for a step."""
    program = next(block for _, block in python_blocks(PAGE) if block.startswith("replayed = "))
    recipe = with_own_directories(program, tmp_path).partition("assert")[0]
    names = {**page, "rows": rows}
    exec(recipe, names)
    return [batch["id"].tolist() for batch in names["replayed"]]


def test_each_step_of_a_run_with_loops_that_are_left_is_traced_and_replayed(
    page: Any, tmp_path: Path
) -> None:
    loader = page["make_spark_converter"](tmp_path / "train.parquet").make_torch_dataloader(
        batch_size=10, num_epochs=1, shuffling_queue_capacity=500
    )
    steps = []
    with page["mlflow"].start_run() as run:
        page["mdstorm"].mlflow.log_state(loader)
        peeked = some(loader, 1)
        for most in (30, 5):
            for step, batch in enumerate(loader, start=1):
                steps.append(batch["id"].tolist())
                if step == most:
                    break
    assert steps[0] == peeked
    trace = page["mdstorm"].mlflow.load_trace(run.info.run_id)
    assert [trace.rows(step).tolist() for step in range(35)] == steps
    assert replayed(page, trace.rows(20), tmp_path) == [steps[20]]


def test_run_continues_from_its_checkpoint_after_batches_that_are_left_out(page: Any) -> None:
    loader, mdstorm = page["train"], page["mdstorm"]
    loader.load_state_dict(page["checkpoint"], skip_batches=34)
    assert some(loader, 3) == [row for step in page["steps"][34:37] for row in step]
    trace = mdstorm.mlflow.load_trace(page["run_id"], "validation")
    assert sorted(trace.rows(range(4)).tolist()) == list(range(200))
