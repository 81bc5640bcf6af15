"""Loaders that Accelerate has prepared."""

from pathlib import Path

import pytest
from tests.trainers.conftest import EVEN_ROWS, ROWS
from tests.trainers.launching import Start, each_once, fork, launch

#: Parts of accelerate_evaluation.py, each one pass over a prepared loader.
PARTS = (
    *("none", "one", "batch-and-one", "auto", "twice", "second-epoch", "pickled"),
    *("dispatched", "not-dispatched", "split", "stateful"),
)


@pytest.mark.parametrize(
    ("start", "processes"),
    [
        (fork, 2),
        pytest.param(launch, 1, marks=pytest.mark.long),
        pytest.param(launch, 2, marks=pytest.mark.long),
    ],
)
def test_gather_for_metrics_gives_each_row_once(
    url: str, even_url: str, start: Start, processes: int, tmp_path: Path
) -> None:
    run = start("accelerate_evaluation.py", url, even_url, at=tmp_path, processes=processes)

    for part in PARTS:
        expected = each_once(EVEN_ROWS if part == "none" else ROWS)
        assert run.delivered(f"all-{part}").rows == expected, part
        shapes = {tuple(map(len, rank)) for rank in run.delivered(part).batches}
        assert len(shapes) == 1, part
    for rank in run.delivered("all-on-the-way").batches:
        assert sorted(row for batch in rank for row in batch) == list(range(ROWS))
    # Shares that were given are read as they are.
    assert run.delivered("explicit").rows == each_once(ROWS)
    assert set(run.delivered("all-in-each").rows.values()) == {processes}
    # Without padding.
    assert run.delivered("uneven").rows == each_once(ROWS)
    assert len(set(run.delivered("uneven").steps)) == 1
    # MosaicML's order repeats rows where their number does not divide evenly.
    elastic = run.delivered("all-elastic").rows
    assert set(elastic) == set(range(ROWS))
    assert elastic.total() < ROWS + processes


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_training_goes_on_by_states_or_by_skipping(
    even_url: str, processes: int, tmp_path: Path
) -> None:
    run = launch("accelerate_training.py", even_url, at=tmp_path, processes=processes)

    batches = EVEN_ROWS // 63 // processes
    synced = [[int(n % 3 == 0 or n == batches)] for n in range(1, batches + 1)]
    for part in ("state-exact", "skip-exact", "state-elastic", "skip-elastic"):
        for epoch in (0, 1):
            assert run.delivered(f"{part}-epoch{epoch}").rows == each_once(EVEN_ROWS), part
            ranks = run.delivered(f"synced-{part}-epoch{epoch}").batches
            assert ranks == [synced] * processes, part
    for part in ("skip-exact", "skip-elastic"):
        last, before = (run.delivered(f"{part}-epoch{epoch}") for epoch in (2, 1))
        assert last.rows == each_once(EVEN_ROWS)
        assert last.batches != before.batches


@pytest.mark.long
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_state_goes_on_in_another_world(
    url: str, before: int, after: int, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"

    for processes, action in ((before, "stop"), (after, "go-on")):
        run = launch(
            "accelerate_state.py", url, checkpoint, action, at=tmp_path, processes=processes
        )

    assert run.delivered().rows == each_once(ROWS)


@pytest.mark.long
def test_ranks_without_rows_and_what_is_refused(few_url: str, url: str, tmp_path: Path) -> None:
    run = launch("accelerate_edges.py", few_url, url, at=tmp_path, processes=2)

    for part in ("few", "same", "other", "next-same", "next-other"):
        for rank in run.delivered(part).batches:
            assert sorted(row for batch in rank for row in batch) == list(range(5)), part
    for part in ("loaded-by-loader", "loaded-by-dataset"):
        assert run.delivered(part).rows == each_once(5), part
