"""The days of docs/how-to/append.md are read as one dataset however they are written."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, some, text_of

from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset, open_dataset

WriteDay = Callable[[str, range], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "events"


@pytest.fixture
def write_day(tmp_path: Path) -> WriteDay:
    """The function of the page, which writes a table here."""

    def materialize(rows: range, url: str, *, overwrite: bool) -> None:
        with MDSWriter(out=url, exist_ok=overwrite) as writer:
            writer.write_batch(pa.table({"id": rows}))

    names: dict[str, Any] = {}
    exec(text_of("how-to/append.md", slice(1), tmp_path).partition('write_day("')[0], names)
    names["materialize"] = materialize
    write: WriteDay = names["write_day"]
    return write


def loader_of(root: Path) -> Any:
    dataset = StreamingDataset(remote=str(root), shuffle=True, batch_size=10)
    return StreamingDataLoader(dataset, batch_size=10)


def test_days_are_in_order_whenever_they_are_written(write_day: WriteDay, root: Path) -> None:
    write_day("2026-01-02", range(100, 150))
    write_day("2026-01-01", range(100))
    for _ in range(2):  # a cell that runs again
        write_day("2026-01-03", range(150, 170))
        dataset = open_dataset(root)
        assert dataset.to_table()["id"].to_pylist() == [*range(170)]
        assert dataset[120]["id"] == 120
    assert sorted(column(loader_of(root))) == [*range(170)]


def test_job_that_has_started_keeps_its_rows_in_all_passes(write_day: WriteDay, root: Path) -> None:
    write_day("2026-01-01", range(100))
    peeked, begun = loader_of(root), loader_of(root)
    some(peeked, 1)
    batches = iter(begun)
    seen = next(batches)["id"].tolist()
    write_day("2026-01-02", range(100, 150))
    assert sorted(seen + column(batches)) == [*range(100)]
    for loader in (peeked, peeked, begun):
        assert sorted(column(loader)) == [*range(100)]
    assert sorted(column(loader_of(root))) == [*range(150)]


def test_state_belongs_to_the_days_that_were_merged(write_day: WriteDay, root: Path) -> None:
    write_day("2026-01-01", range(100))
    loader = loader_of(root)
    seen, state = some(loader, 3), loader.state_dict()
    resumed = loader_of(root)
    resumed.load_state_dict(state)
    assert sorted(seen + column(resumed)) == [*range(100)]
    write_day("2026-01-02", range(100, 150))
    with pytest.raises(ValueError, match="state"):
        loader_of(root).load_state_dict(state)


def test_day_that_is_written_again_or_removed_has_no_old_rows(
    write_day: WriteDay, root: Path
) -> None:
    write_day("2026-01-01", range(100))
    write_day("2026-01-02", range(100, 150))
    write_day("2026-01-02", range(100, 120))
    assert sorted(column(loader_of(root))) == [*range(120)]
    shutil.rmtree(root / "day=2026-01-01")
    write_day("2026-01-02", range(100, 110))
    assert sorted(column(loader_of(root))) == [*range(100, 110)]
