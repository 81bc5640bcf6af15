"""The programs of docs/quickstart/parquet.md have each row once however they are continued."""

from pathlib import Path
from typing import Any

import pytest
from tests.edge.pages.page_programs import column, some, text_of

ROWS = 1000


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text_of("quickstart/parquet.md", slice(4), tmp_path), names)
    return names


def test_rows_are_read_in_place_in_each_loop_over_the_loader(page: Any) -> None:
    reader = page["make_batch_reader"](page["reader"].dataset.url, num_epochs=1)
    with page["BatchedDataLoader"](reader, batch_size=100) as loader:
        for _ in range(2):
            assert sorted(column(loader)) == [*range(ROWS)]


def test_cell_that_converts_again_replaces_the_shards_of_later_loaders(
    page: Any, tmp_path: Path
) -> None:
    page["pq"].write_table(page["pa"].table({"id": range(7)}), tmp_path / "n")
    page["convert"](tmp_path / "n", tmp_path / "numbers-from-python", overwrite=True)
    dataset = page["StreamingDataset"](
        remote=str(tmp_path / "numbers-from-python"), shuffle=True, batch_size=100
    )
    loader = page["StreamingDataLoader"](dataset, batch_size=100)
    assert sorted(column(loader)) == [*range(7)]


def test_shards_are_shuffled_differently_in_each_pass_after_a_peek_and_a_break(page: Any) -> None:
    loader = page["StreamingDataLoader"](page["dataset"], batch_size=100)
    passes = []
    for steps in (1, 3):
        some(loader, steps)
        passes.append(column(loader))
        assert sorted(passes[-1]) == [*range(ROWS)]
    assert passes[0] != passes[1]
