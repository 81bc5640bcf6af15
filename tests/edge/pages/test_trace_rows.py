"""The traces of docs/how-to/trace-rows.md are of the batches that a loop gets."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import of_tensorflow, run_blocks, some

from mdstorm import make_batch_reader
from mdstorm.pytorch import BatchedDataLoader

ROWS = 1000


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    table = pa.table({"id": np.arange(ROWS), "customer": np.arange(ROWS) % 100})
    return run_blocks("how-to/trace-rows.md", slice(3), table, tmp_path)


def test_trace_of_the_next_loop_follows_a_peek_a_break_and_a_whole_pass(page: Any) -> None:
    loader = page["loader_of"](0, 2)
    for steps in (1, 3, None):
        some(loader, steps or ROWS)
        trace = loader.trace()
        batches = [batch["id"].tolist() for batch in loader]
        assert [trace.rows(step).tolist() for step in range(len(batches))] == batches


def test_trace_of_a_running_loop_begins_where_it_begins(page: Any) -> None:
    loader = page["loader_of"](1, 2)
    batches = iter(loader)
    begun = [next(batches)["id"].tolist() for _ in range(4)]
    trace = loader.trace()
    assert [trace.rows(step, 1).tolist() for step in range(4)] == begun
    assert [trace.where(rows[0]) for rows in begun] == [(step, 1) for step in range(4)]


def test_steps_of_a_run_that_changes_ranks_have_the_rows_that_were_read(page: Any) -> None:
    """The run of the page, by value: 20 steps on two ranks, then the rest on four."""
    read: dict[tuple[int, int], list[int]] = {}
    state = page["json"].loads(page["states"][1])
    for rank in range(2):
        for step, batch in zip(range(20), page["loader_of"](rank, 2), strict=False):
            read[step, rank] = batch["id"].tolist()
    for rank in range(4):
        loader = page["loader_of"](rank, 4)
        loader.load_state_dict(state)
        for step, batch in enumerate(loader, start=20):
            read[step, rank] = batch["id"].tolist()
    found = page["steps"].to_pylist()
    assert len(found) == ROWS // 100
    for one in found:
        assert one["row"] in read[one["step"], one["rank"]]


def test_trace_of_tensorflow_is_of_the_batches_of_the_next_loop(page: Any) -> None:
    dataset = page["converter"].make_tf_dataset(
        50, num_epochs=1, shuffling_queue_capacity=500, seed=7
    )
    for steps in (1, 3):
        some(of_tensorflow(dataset), steps)
        trace = dataset.trace()
        batches = [batch["id"].tolist() for batch in of_tensorflow(dataset)]
        assert [trace.rows(step).tolist() for step in range(len(batches))] == batches


@pytest.mark.parametrize("kind", ["loader", "reader", "loader over a reader"])
def test_many_batches_are_those_of_each_kind_of_input(page: Any, kind: str) -> None:
    source = page["loader_of"](0, 1)
    if kind != "loader":
        source = make_batch_reader(page["converter"].file_urls, num_epochs=1, seed=4)
    source = BatchedDataLoader(source, batch_size=60) if kind.startswith("loader over") else source
    trace = source.trace()
    batches = [(one["id"] if isinstance(one, dict) else one.id).tolist() for one in source]
    assert trace.num_batches() == len(batches) > 5
    assert trace.rows([3, 1]).tolist() == batches[3] + batches[1]
    assert trace.rows(slice(2, None)).tolist() == [row for one in batches[2:] for row in one]
