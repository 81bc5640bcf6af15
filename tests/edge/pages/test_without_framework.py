"""The batches of docs/how-to/without-framework.md have each row however often they are read."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, some, text_of

from mdstorm_backend import ExactOrder, MDSWriter

ROWS = 100


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    """The dataset of the page, which a writer makes here, after the page's own loops."""
    numbers = np.arange(ROWS)
    with MDSWriter(out=str(tmp_path / "plain")) as writer:
        writer.write_batch(pa.table({"id": numbers, "x": (numbers / 2).astype(np.float32)}))
    names: dict[str, Any] = {}
    program = text_of("how-to/without-framework.md", slice(1), tmp_path)
    exec(program.replace("\nmaterialize(df, ", "\nprint("), names)
    return names["dataset"]


def test_each_loop_begins_with_the_first_row_in_each_format(dataset: Any) -> None:
    batches = dataset.batches(15)
    assert some(batches, 2) == [*range(30)]
    for _ in range(2):
        assert column(dataset.batches(15)) == [*range(ROWS)]
        for kind in ("arrow", "pandas"):
            found = dataset.batches(15, format=kind)
            rows = [row for batch in found for row in np.asarray(batch["id"])]
            assert rows == [*range(ROWS)]


def test_order_shuffles_and_shares_the_rows_and_their_values_stay_together(dataset: Any) -> None:
    orders = [ExactOrder(seed=3, shuffle_rows=True, rank=rank, world_size=2) for rank in range(2)]
    for _ in range(2):
        shares = [list(dataset.batches(15, order=order)) for order in orders]
        rows = [column(share) for share in shares]
        assert sorted(rows[0] + rows[1]) == [*range(ROWS)]
        assert rows[0] != sorted(rows[0])
        assert [x for share in shares for x in column(share, "x")] == [
            row / 2 for share in rows for row in share
        ]
