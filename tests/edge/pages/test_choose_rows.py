"""The recipes of docs/how-to/choose-rows.md hold however their loaders are used."""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, of_tensorflow, run_blocks, some

PAGE = "how-to/choose-rows.md"


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    return run_blocks(PAGE, slice(5), pa.table({"id": np.arange(1000)}), tmp_path)


def test_chosen_rows_stay_the_same_after_a_peek_a_break_and_in_later_epochs(page: Any) -> None:
    tested = np.flatnonzero(page["is_test"]).tolist()
    loader = page["converter"].make_torch_dataloader(rows=page["is_test"], **page["options"])
    peeked = some(loader, 1)
    first = column(loader)
    assert first[: len(peeked)] == peeked
    assert set(some(loader, 3)) < set(tested)
    assert sorted(first) == sorted(column(loader)) == tested


def test_cells_that_run_again_and_out_of_order_choose_the_same_rows(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    first, again = (make(rows=page["good"], **options) for _ in range(2))
    some(first, 2)  # an interrupted cell
    assert sorted(column(again)) == sorted(column(first)) == page["good"].tolist()


def test_chosen_rows_resume_on_two_ranks_after_a_loop_on_one(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    train = {"rows": ~page["is_test"], **options}
    loader = make(**train)
    seen = some(loader, 7)
    state = loader.state_dict()
    for rank in range(2):
        share = make(cur_shard=rank, shard_count=2, **train)
        share.load_state_dict(state)
        seen += column(share)
    assert sorted(seen) == np.flatnonzero(~page["is_test"]).tolist()


def test_conditions_choose_equal_batches_on_two_ranks(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    shares = [
        [batch["id"].tolist() for batch in make(where=[("id", "<", 31)], **ranks, **options)]
        for ranks in ({"cur_shard": rank, "shard_count": 2} for rank in range(2))
    ]
    assert len(shares[0]) == len(shares[1])
    assert sorted(chain.from_iterable(shares[0] + shares[1])) == list(range(31))


def test_another_choice_of_rows_refuses_a_state(page: Any) -> None:
    make, options = page["converter"].make_torch_dataloader, page["options"]
    train = make(rows=~page["is_test"], **options)
    some(train, 3)
    with pytest.raises(ValueError, match="rows"):
        make(rows=page["is_test"], **options).load_state_dict(train.state_dict())


def test_tensorflow_has_the_chosen_rows_in_each_loop_and_on_two_ranks(page: Any) -> None:
    make, options = page["converter"].make_tf_dataset, page["options"]
    tested = np.flatnonzero(page["is_test"]).tolist()
    dataset = make(rows=page["is_test"], **options)
    some(of_tensorflow(dataset), 2)
    for _ in range(2):
        assert sorted(column(of_tensorflow(dataset))) == tested
    shares = [
        column(of_tensorflow(make(where=[("id", "<", 30)], cur_shard=r, shard_count=2, **options)))
        for r in range(2)
    ]
    assert list(map(len, shares)) == [15, 15]
    assert sorted(shares[0] + shares[1]) == list(range(30))
