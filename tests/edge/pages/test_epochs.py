"""The rule of docs/concepts/epochs.md holds for cells of a notebook that run again."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, run_blocks, some

ROWS = 60


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Make loaders like the page's, which compares its first two passes itself."""
    table = pa.table({"id": np.arange(ROWS)})
    names = run_blocks("concepts/epochs.md", slice(1), table, tmp_path)
    options = {"batch_size": 20, "num_epochs": 1, "shuffle_rows": True, "seed": 7}
    return lambda **more: names["converter"].make_torch_dataloader(**options, **more)


def run_cell(loader: Any, fails_after: int) -> list[int]:
    """Run a cell that is interrupted in one of its batches; return the rows of all of these."""
    seen = []
    with suppress(KeyboardInterrupt):
        for step, batch in enumerate(loader, start=1):
            seen += batch["id"].tolist()
            if step == fails_after:
                raise KeyboardInterrupt
    return seen


def test_cell_that_is_interrupted_in_its_first_batch_gets_it_again(make: Any) -> None:
    loader = make()
    assert run_cell(loader, fails_after=1) == column(loader)[:20]


def test_cell_that_is_interrupted_later_begins_another_epoch(make: Any) -> None:
    loader = make()
    seen, again = run_cell(loader, fails_after=2), column(loader)
    assert sorted(again) == list(range(ROWS))
    assert again[:40] != seen


def test_second_peek_uses_up_the_epoch_and_a_new_loader_begins_with_the_first(make: Any) -> None:
    loader = make()
    first = some(loader, 1)
    assert some(loader, 1) == first  # the peek's batch comes again, in a loop that is none
    assert column(loader)[:20] != first
    assert column(make())[:20] == first


def test_state_after_a_break_has_the_rest_and_the_loop_does_not(make: Any) -> None:
    loader = make()
    seen = some(loader, 2)
    state = loader.state_dict()
    assert len(column(loader)) == ROWS
    loader.load_state_dict(state)
    assert sorted(seen + column(loader)) == list(range(ROWS))
    assert sorted(column(loader)) == list(range(ROWS))
