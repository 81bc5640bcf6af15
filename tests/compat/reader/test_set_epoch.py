"""`set_epoch` of readers and of loaders over them."""

from typing import Any

import numpy as np
import pytest

from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.reader import make_batch_reader

pytestmark = pytest.mark.newest

in_either_order = pytest.mark.parametrize("order", ["exact", "elastic"])


def reader_of(url: str, order: str) -> Any:
    return make_batch_reader(url, num_epochs=1, seed=3, shuffle_rows=True, order=order)


def ids(items: Any) -> list[int]:
    return [n for item in items for n in np.asarray(item.id).tolist()]


@in_either_order
def test_a_reader_begins_its_next_pass_with_that_epoch(thirty: str, order: str) -> None:
    epochs = []
    with reader_of(thirty, order) as reader:
        for _ in range(3):
            epochs.append(ids(reader))
            reader.reset()
        for epoch in (2, 0, 1):
            reader.set_epoch(epoch)
            assert ids(reader) == epochs[epoch]
            reader.reset()
    assert epochs[0] != epochs[1] != epochs[2]
    with reader_of(thirty, order) as fresh:
        fresh.set_epoch(2)
        assert ids(fresh) == epochs[2]


@in_either_order
@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
@pytest.mark.parametrize("of_reader", [False, True])
def test_so_does_a_loader_over_it(thirty: str, order: str, kind: Any, of_reader: bool) -> None:
    def read(loader: Any) -> list[int]:
        return [n for batch in loader for n in batch["id"].tolist()]

    with kind(reader_of(thirty, order), batch_size=4) as loader:
        epochs = [read(loader) for _ in range(3)]
        for epoch in (2, 0, 1):
            (loader.reader if of_reader else loader).set_epoch(epoch)
            assert read(loader) == epochs[epoch]
        assert read(loader) == epochs[2]
    assert epochs[0] != epochs[1] != epochs[2]
