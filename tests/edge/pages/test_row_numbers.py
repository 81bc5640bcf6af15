"""The recipes of docs/how-to/row-numbers.md find the right rows however they are used."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import run_blocks

ROWS = 1000
NUMBERS = np.arange(ROWS)
LABELS = np.where(NUMBERS == 321, 9, NUMBERS % 2)


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    table = pa.table({"x": NUMBERS / ROWS, "label": LABELS})
    return run_blocks("how-to/row-numbers.md", slice(3), table, tmp_path)


def rows_of(loader: Any, most: int = ROWS) -> list[int]:
    """Return the row numbers of the first batches, after comparing the values of the rows."""
    found: list[int] = []
    for step, batch in enumerate(loader, start=1):
        rows = batch["row"].numpy()
        assert np.allclose(batch["x"], rows / ROWS)
        assert batch["label"].tolist() == LABELS[rows].tolist()
        found += rows.tolist()
        if step == most:
            break
    return found


def test_losses_are_of_their_rows(page: Any) -> None:
    expected = np.square(NUMBERS / ROWS - LABELS)
    assert np.allclose(page["losses"], expected, atol=1e-5)


def test_numbers_are_of_their_rows_after_a_peek_a_break_and_a_resume(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    loader = make(**options)
    assert rows_of(loader, 1) == rows_of(loader, 1)
    seen = rows_of(loader, 8)
    resumed = make(**options)
    resumed.load_state_dict(loader.state_dict())
    assert sorted(seen + rows_of(resumed)) == NUMBERS.tolist()
    assert sorted(rows_of(loader)) == NUMBERS.tolist()


def test_numbers_of_two_ranks_are_those_of_the_whole_data(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    shares = [rows_of(make(cur_shard=rank, shard_count=2, **options)) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == NUMBERS.tolist()


def test_hard_rows_keep_their_numbers_in_each_epoch(page: Any) -> None:
    loader = page["converter"].make_torch_dataloader(rows=page["hard"], **page["options"])
    for _ in range(2):
        assert sorted(rows_of(loader)) == sorted(page["hard"].tolist())
