"""Loaders for the tests."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders import NumberedBatches, ReaderOptions
from mdstorm_backend.order import Order
from mdstorm_backend.read import Block, SampleSource, Steps

#: Arguments of `ExactOrder`.
shuffles = st.builds(
    dict[str, Any],
    st.sampled_from([{}, {"window": 12}, {"queue": 4}]),
    seed=st.integers(0, 3),
    shuffle_shards=st.booleans(),
    shuffle_rows=st.booleans(),
)
#: A function that sets this process's rank and world size.
Launch = Callable[[int, int], None]
in_either_order = pytest.mark.parametrize("order", ["elastic", "exact"])


def options_of(dataset: SampleSource, order: Order, **options: Any) -> ReaderOptions:
    """Return options; those that are steps are declared as such."""
    names = {one.name for one in fields(Steps)} & options.keys()
    steps = Steps(**{name: options.pop(name) for name in names})
    return ReaderOptions(dataset, order, steps=steps, **options)


class Own(StreamingDataset):
    """A dataset with its own `__iter__`."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


class CountingItself(StreamingDataLoader):
    """A loader that counts the samples in its batches itself."""

    def _get_batch_size(self, batch: Any) -> int:
        return len(batch["number"])


class OwnStates(StreamingDataset):
    """A dataset with its own state methods."""

    def state_dict(self, num_samples: Any = None, from_beginning: bool = True) -> Any:
        return super().state_dict(num_samples, from_beginning)

    def load_state_dict(self, obj: Any) -> None:
        super().load_state_dict(obj)


class Negative(StreamingDataset):
    """A dataset that negates its numbers."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        return {**sample, "number": -sample["number"]}


class Where:
    """A transform that keeps the rows whose numbers satisfy a condition."""

    columns = ("number",)

    def __init__(self, condition: Callable[[Any], Any]) -> None:
        self.condition = condition

    def __call__(self, batch: Any) -> Any:
        return {"number": batch["number"][self.condition(batch["number"])]}


class Filter(Where):
    """A transform that declares that it may drop rows."""

    leaves_out_rows = True


class Repeat:
    """A transform that repeats each row."""

    columns = ("number",)

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, batch: Any) -> Any:
        return {"number": np.repeat(batch["number"], self.times)}


class Same:
    """A transform that changes nothing."""

    columns = ("number",)

    def __call__(self, batch: Any) -> Any:
        return batch


def dataset_in(
    order: str, url: str, batch_size: int, kind: type[StreamingDataset] = StreamingDataset
) -> StreamingDataset:
    """Make a shuffled dataset with the given order."""
    if order == "exact":
        return kind(local=url, order=ExactOrder(shuffle_rows=True))
    return kind(local=url, batch_size=batch_size, shuffle=True)


def loader_in(
    order: str,
    url: str,
    batch_size: int,
    kind: type[StreamingDataset] = StreamingDataset,
    **options: Any,
) -> StreamingDataLoader:
    """Make a loader for a dataset made by `dataset_in`."""
    return StreamingDataLoader(dataset_in(order, url, batch_size, kind), batch_size, **options)


#: Arguments to the loader; all others are passed to the dataset.
_LOADER = (
    "batch_size",
    "drop_last",
    "num_workers",
    "collate_fn",
    "prefetch_factor",
    "multiprocessing_context",
)


def torch_loader(
    dataset: Dataset, kind: type[StreamingDataset] = StreamingDataset, **options: Any
) -> StreamingDataLoader:
    """Make a loader that reads in stored order by default."""
    loader = {name: options.pop(name) for name in _LOADER if name in options}
    order = ExactOrder(**options.pop("shuffle", {}))
    source = kind(local=dataset.url, order=order, **options)
    return StreamingDataLoader(source, **{"batch_size": 4, **loader})


def listed(values: Any) -> Any:
    """Convert a tensor, or each tensor in a list, to a list."""
    if isinstance(values, torch.Tensor):
        return values.tolist()
    return [value.tolist() if isinstance(value, torch.Tensor) else value for value in values]


def column(loader: Any, name: str = "number") -> list[Any]:
    """Return one column of each batch."""
    return [listed(batch[name]) for batch in loader]


def rows(batches: Iterable[Any]) -> list[int]:
    """Return the numbers in all batches."""
    return [number for batch in batches for number in batch["number"].tolist()]


def read_all(loader: Iterable[Any]) -> list[Any]:
    """Return all batches of PyTorch's loader, and end its workers also after an error.

    The error keeps the iterator in a cycle. When a cycle is freed, PyTorch waits for 5 s.
    """
    batches = iter(loader)
    try:
        return list(batches)
    finally:
        getattr(batches, "_shutdown_workers", lambda: None)()


def taken(loader: Any, batches: int | None) -> list[list[int]]:
    """Read a number of batches (None: all), close the iterator, and return each batch's numbers."""
    iterator = iter(loader)
    found = column(islice(iterator, batches))
    iterator.close()
    return found


def saved(loader: Any, batches: int) -> tuple[list[list[int]], dict[str, Any]]:
    """Return the numbers of some batches, and a state that is saved within the loop.

    After the loop, a state would not count a single batch, which could be a peek.
    """
    iterator = iter(loader)
    found = column(islice(iterator, batches))
    state = loader.state_dict()
    iterator.close()
    return found, state


def assert_same_tensors(found: Any, expected: Any) -> None:
    """Check the values, shapes and dtypes of tensors, also in lists and dicts, beside other values.

    PyTorch's own function would import compilers, which takes seconds.
    """
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, torch.Tensor):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert torch.equal(found, expected)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same_tensors(one, other)
    else:
        assert found == expected


def lists(blocks: Iterator[Block]) -> NumberedBatches:
    """Make batches of the numbers in blocks, as lists."""
    for block in blocks:
        for batch, offset, size in zip(block.batches(), block.offsets, block.sizes, strict=True):
            numbers: Any = batch["number"]
            yield numbers.tolist(), offset, size
