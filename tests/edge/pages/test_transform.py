"""The functions of docs/how-to/transform.md change each row once however loaders are used."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, run_blocks, some

PAGE = "how-to/transform.md"
ROWS = 100
TABLE = pa.table({"id": np.arange(ROWS), "width": 2 * np.arange(ROWS)})


def areas(batches: Any) -> list[int]:
    """Return the row numbers of batches, after comparing the column that the function adds."""
    rows: list[int] = []
    for batch in batches:
        assert sorted(batch) == ["area", "id"]
        assert batch["area"].tolist() == [3 * row for row in batch["id"].tolist()]
        rows += batch["id"].tolist()
    return rows


def test_column_that_a_function_adds_is_of_its_row_in_all_passes(tmp_path: Path) -> None:
    names = run_blocks(PAGE, slice(1), TABLE, tmp_path)
    loader = names["loader"]
    some(loader, 1)
    for _ in range(2):
        assert sorted(areas(loader)) == [*range(ROWS)]
    some(loader, 2)
    assert sorted(areas(loader)) == [*range(ROWS)]
    shares = [
        names["converter"].make_torch_dataloader(
            10, num_epochs=1, transform_spec=names["transform"], cur_shard=rank, shard_count=2
        )
        for rank in range(2)
    ]
    assert sorted(areas(shares[0]) + areas(shares[1])) == [*range(ROWS)]


def test_tensorflow_gets_the_columns_of_the_function_in_all_passes(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    names = run_blocks(PAGE, slice(1), TABLE, tmp_path)
    dataset = names["converter"].make_tf_dataset(
        batch_size=30, num_epochs=1, transform_spec=names["transform"]
    )
    for batch in dataset:  # a loop that is left
        assert len(batch.id) == 30
        break
    for _ in range(2):
        found = [(batch.id.numpy(), batch.area.numpy()) for batch in dataset]
        rows = np.concatenate([row for row, _ in found])
        assert sorted(rows.tolist()) == [*range(ROWS)]
        assert np.concatenate([area for _, area in found]).tolist() == (3 * rows).tolist()


def test_function_that_keeps_rows_resumes_on_two_ranks_after_one(tmp_path: Path) -> None:
    names = run_blocks(PAGE, slice(2), TABLE, tmp_path)
    options = {"batch_size": 10, "num_epochs": 1, "transform_spec": names["transform"], "seed": 3}
    make = names["converter"].make_torch_dataloader
    loader = make(**options)
    assert len(loader) == 10
    some(loader, 1)
    seen = some(loader, 4)
    for rank in range(2):
        share = make(cur_shard=rank, shard_count=2, **options)
        share.load_state_dict(loader.state_dict())
        batches = [batch["id"].tolist() for batch in share]
        assert len(batches) == 3
        seen += [row for batch in batches for row in batch]
    assert sorted(-row for row in seen) == [*range(ROWS)]
    assert sorted(-row for row in column(loader)) == [*range(ROWS)]
