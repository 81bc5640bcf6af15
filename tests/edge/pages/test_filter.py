"""The conditions of docs/how-to/filter.md choose the same rows however readers are used."""

from pathlib import Path
from typing import Any

import pytest
from tests.edge.pages.page_programs import column, some, text_of

from mdstorm.spark import make_spark_converter


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text_of("how-to/filter.md", slice(1), tmp_path), names)
    return names


def conditions(page: Any) -> list[tuple[dict[str, Any], list[int]]]:
    """Return what the page passes, and the rows that match it."""
    few, is_a = [("id", "<", 60)], page["in_set"]({"a"}, "kind")
    by_function = page["in_lambda"](["id"], lambda id_: id_ % 50 == 0)
    return [
        ({"filters": few}, [*range(60)]),
        ({"predicate": is_a}, [*range(0, 100, 2)]),
        ({"predicate": by_function}, [0, 50]),
        ({"filters": few, "predicate": is_a}, [*range(0, 60, 2)]),
    ]


def test_each_epoch_and_loop_of_a_reader_has_the_matching_rows(page: Any) -> None:
    for arguments, rows in conditions(page):
        assert page["ids"](num_epochs=2, **arguments) == rows * 2
        with page["make_batch_reader"](page["url"], num_epochs=1, **arguments) as reader:
            for _ in range(2):
                assert sorted(row for batch in reader for row in batch.id) == rows
                reader.reset()


def test_loaders_have_the_matching_rows_after_a_peek_and_on_two_ranks(page: Any) -> None:
    converter = make_spark_converter(page["url"])
    for arguments, rows in conditions(page):
        options = {"batch_size": 8, "num_epochs": 1, **arguments}
        loader = converter.make_torch_dataloader(**options)
        peeked = some(loader, 1)
        assert column(loader)[: len(peeked)] == peeked
        assert sorted(column(loader)) == rows
        shares = [
            converter.make_torch_dataloader(cur_shard=rank, shard_count=2, **options)
            for rank in range(2)
        ]
        assert sorted(column(shares[0]) + column(shares[1])) == rows
