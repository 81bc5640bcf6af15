"""The batches of docs/how-to/batches.md have their sizes and rows in all loops."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import run_blocks, some

ROWS = 1000


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    numbers = np.arange(ROWS)
    table = pa.table({"id": numbers, "x": numbers / 2, "z": 2.0 * numbers, "y": numbers})
    return run_blocks("how-to/batches.md", slice(1), table, tmp_path)


def test_only_the_last_batch_of_each_pass_is_shorter(page: Any) -> None:
    loader = page["converter"].make_torch_dataloader(300, num_epochs=1)
    some(loader, 1)
    for _ in range(2):
        assert [len(batch["x"]) for batch in loader] == [300, 300, 300, 100]
    loader = page["converter"].make_torch_dataloader(300, num_epochs=2)
    assert [len(batch["x"]) for batch in loader] == [300] * 6 + [200]


def test_batches_of_ranks_are_equal_in_number_and_the_last_two_may_be_shorter(page: Any) -> None:
    sizes = [
        [
            len(batch["x"])
            for batch in page["converter"].make_torch_dataloader(
                50, num_epochs=1, cur_shard=rank, shard_count=3
            )
        ]
        for rank in range(3)
    ]
    assert len({len(one) for one in sizes}) == 1
    assert sum(map(sum, sizes)) == ROWS
    assert {size for one in sizes for size in one[:-2]} == {50}


def test_matrix_has_the_features_of_the_labels_in_each_pass(page: Any) -> None:
    loader = page["converter"].make_torch_dataloader(
        300, num_epochs=1, features=["x", "z"], labels="y", stack=True
    )
    for _ in range(2):
        seen: list[int] = []
        for features, labels in loader:
            assert features.tolist() == [[label / 2, 2 * label] for label in labels.tolist()]
            seen += labels.tolist()
        assert sorted(seen) == [*range(ROWS)]
