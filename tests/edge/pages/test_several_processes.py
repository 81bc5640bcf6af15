"""The shares of docs/how-to/several-processes.md cover each row once however they are used."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, of_tensorflow, run_blocks, some

PAGE = "how-to/several-processes.md"
RANKS, ROWS = 3, 10


@pytest.fixture
def converter(tmp_path: Path) -> Any:
    """The converter that another process has pickled, as on the page."""
    return run_blocks(PAGE, slice(3), pa.table({"id": np.arange(ROWS)}), tmp_path)["converter"]


def loaders(converter: Any, **options: Any) -> list[Any]:
    return [
        converter.make_torch_dataloader(2, num_epochs=1, cur_shard=r, shard_count=RANKS, **options)
        for r in range(RANKS)
    ]


@pytest.mark.parametrize("options", [{}, {"shuffling_queue_capacity": ROWS, "seed": 3}], ids=str)
def test_shares_cover_each_row_once_after_a_peek_and_a_break_on_all_ranks(
    converter: Any, options: Any
) -> None:
    shares = loaders(converter, **options)
    assert [some(share, 1) for share in shares] == [some(share, 1) for share in shares]
    for share in shares:
        some(share, 2)
    for _ in range(2):
        found = [[batch["id"].tolist() for batch in share] for share in shares]
        assert len({len(batches) for batches in found}) == 1
        assert sorted(row for batches in found for batch in batches for row in batch) == [
            *range(ROWS)
        ]


def test_new_loaders_of_each_epoch_continue_with_the_next_one(converter: Any) -> None:
    for _ in range(3):
        assert sorted(row for share in loaders(converter) for row in column(share)) == [
            *range(ROWS)
        ]


def test_share_is_all_rows_for_a_process_that_is_alone(tmp_path: Path) -> None:
    names = run_blocks(PAGE, slice(2), pa.table({"id": np.arange(ROWS)}), tmp_path)
    assert names["rows"] == ROWS
    assert sorted(column(names["loader"])) == [*range(ROWS)]


def test_tensorflow_shares_cover_each_row_once_in_each_loop(converter: Any) -> None:
    shares = [
        converter.make_tf_dataset(2, num_epochs=1, cur_shard=r, shard_count=RANKS)
        for r in range(RANKS)
    ]
    for share in shares:
        some(of_tensorflow(share), 2)
    for _ in range(2):
        found = [[batch["id"].tolist() for batch in of_tensorflow(share)] for share in shares]
        assert len({len(batches) for batches in found}) == 1
        assert sorted(row for batches in found for batch in batches for row in batch) == [
            *range(ROWS)
        ]
