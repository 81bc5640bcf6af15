"""States of the loaders of docs/how-to/resume.md have the remaining rows however they are used.

The program of the page is killed and started again in `test_documentation`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, run_blocks, some

ROWS = 1000


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    """The names of the page, after its three epochs."""
    x = (np.arange(ROWS) / 1000).astype(np.float32)
    table = pa.table({"id": np.arange(ROWS), "x": x, "y": 2 * x})
    return run_blocks("how-to/resume.md", slice(1), table, tmp_path)


def loader_of(page: Any, **ranks: int) -> Any:
    return page["converter"].make_torch_dataloader(
        10, num_epochs=1, shuffling_queue_capacity=500, seed=7, **ranks
    )


def test_checkpoint_of_the_page_is_the_state_after_its_last_step(page: Any) -> None:
    saved = page["torch"].load(page["CHECKPOINT"])
    assert (saved["step"], saved["loader"]) == (300, page["loader"].state_dict())
    resumed = loader_of(page)
    resumed.load_state_dict(saved["loader"])
    assert sorted(column(resumed)) == list(range(ROWS))  # the fourth epoch


@pytest.mark.parametrize("steps", [2, 50, 99, 100])
def test_loop_left_after_some_steps_resumes_in_a_new_loader(page: Any, steps: int) -> None:
    loader = loader_of(page)
    seen = some(loader, steps)
    state = loader.state_dict()
    validated = column(loader_of(page))  # another loader changes nothing
    resumed = loader_of(page)
    resumed.load_state_dict(state)
    rest = column(resumed)
    assert sorted(validated) == list(range(ROWS))
    assert sorted(seen + rest) == sorted([*range(ROWS)] * (2 if steps == 100 else 1))


def test_state_after_a_peek_has_all_rows(page: Any) -> None:
    loader, resumed = loader_of(page), loader_of(page)
    some(loader, 1)
    resumed.load_state_dict(loader.state_dict())
    assert sorted(column(resumed)) == list(range(ROWS))


def test_loop_without_a_state_begins_a_new_epoch_after_a_break(page: Any) -> None:
    loader = loader_of(page)
    first = some(loader, 2)
    second = column(loader)
    assert sorted(second) == list(range(ROWS))
    assert second[: len(first)] != first


def test_state_of_two_ranks_resumes_on_three_and_back_on_one(page: Any) -> None:
    seen, state = [], None
    for ranks, steps in ((2, 20), (3, 10), (1, ROWS)):
        loaders = [loader_of(page, cur_shard=r, shard_count=ranks) for r in range(ranks)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
            seen += some(loader, steps)
        states = [loader.state_dict() for loader in loaders]
        assert all(one == states[0] for one in states)
        state = states[0]
    assert sorted(seen) == list(range(ROWS))
