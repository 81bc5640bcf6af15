"""The predictions of docs/how-to/inference.md are of their rows, each once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.edge.pages.page_programs import program_of

from mdstorm.spark import make_spark_converter

ROWS = 1000
X = np.arange(ROWS, dtype=np.float32) / ROWS


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    """The names of the page, after its predictions."""
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(pa.table({"id": np.arange(ROWS), "x": X}), data / "0.parquet", row_group_size=90)
    program = program_of("how-to/inference.md", slice(1), data, tmp_path)
    names: dict[str, Any] = {"make_spark_converter": make_spark_converter}
    exec(program.partition("\npredictions = ")[0], names)
    return names


def predicted(page: Any, batch: Any) -> pa.Table:
    found = page["model"](batch["x"][:, None])[:, 0]
    return pa.table({"id": batch["id"].numpy(), "y": found.numpy()})


def test_predictions_are_in_the_order_of_the_rows(page: Any, tmp_path: Path) -> None:
    found = pq.read_table(tmp_path / "predictions.parquet")
    assert found["id"].to_pylist() == [*range(ROWS)]
    with torch.inference_mode():
        expected = page["model"](torch.from_numpy(X)[:, None])[:, 0]
    assert np.allclose(found["y"], expected)


@torch.inference_mode()
def test_files_of_two_processes_have_each_row_once(page: Any) -> None:
    make = page["converter"].make_torch_dataloader
    parts = [
        pa.concat_tables(
            predicted(page, batch)
            for batch in make(128, cur_shard=rank, shard_count=2, **page["in_order"])
        )
        for rank in range(2)
    ]
    assert pa.concat_tables(parts)["id"].to_pylist() == [*range(ROWS)]


@torch.inference_mode()
def test_interrupted_run_writes_its_open_file_again_and_has_each_row_once(page: Any) -> None:
    make = page["converter"].make_torch_dataloader
    loader, files, state = make(50, **page["in_order"]), [], None
    tables: list[pa.Table] = []
    for step, batch in enumerate(loader, start=1):
        tables.append(predicted(page, batch))
        if step % 4 == 0:
            files.append(pa.concat_tables(tables))
            tables, state = [], loader.state_dict()
        if step == 14:  # interrupted, with a file that is open
            break
    resumed = make(50, **page["in_order"])
    resumed.load_state_dict(state)
    files += [predicted(page, batch) for batch in resumed]
    assert pa.concat_tables(files)["id"].to_pylist() == [*range(ROWS)]
