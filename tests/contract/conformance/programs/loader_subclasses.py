"""User subclasses of the loaders in `petastorm.pytorch`, and loops copied from those loaders."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from petastorm import make_batch_reader, make_reader
from petastorm.pytorch import (
    DataLoader,
    InMemBatchedDataLoader,
    LoaderBase,
    _sanitize_pytorch_types,
    decimal_friendly_collate,
)
from petastorm.reader_impl.shuffling_buffer import NoopShufflingBuffer, RandomShufflingBuffer
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM


class _Filled(DataLoader):
    """Omits the last batch if it is not full."""

    def _iter_impl(self) -> Iterator[Any]:
        for batch in super()._iter_impl():
            if len(batch["id"]) == self.batch_size:
                yield batch


class _InPairs(DataLoader):
    """Yields two batches at a time by overriding only `_yield_batches`."""

    def _yield_batches(self, keys: Any) -> Iterator[Any]:
        while self._shuffling_buffer.can_retrieve():
            row = self._shuffling_buffer.retrieve()
            row = row if isinstance(row, dict) else dict(zip(keys, row, strict=True))
            self._batch_acc.append(row)
            if len(self._batch_acc) == 2 * self.batch_size:
                yield self.collate_fn(self._batch_acc)
                self._batch_acc = []


class _Copied(DataLoader):
    """A custom loop around Petastorm's parts that shuffles each batch from the reader."""

    def _iter_impl(self) -> Iterator[Any]:
        keys: Any = ()
        self._batch_acc = []
        for item in self.reader:
            capacity = self.shuffling_queue_capacity
            self._shuffling_buffer = (
                RandomShufflingBuffer(capacity, capacity - 1, extra_capacity=1000)
                if capacity > 0
                else NoopShufflingBuffer()
            )
            columns = item._asdict()
            _sanitize_pytorch_types(columns)
            keys = columns.keys()
            self._shuffling_buffer.add_many(list(zip(*columns.values(), strict=True)))
            self._shuffling_buffer.finish()
            yield from self._yield_batches(keys)
        if self._batch_acc:
            yield self.collate_fn(self._batch_acc)


class _Plain(LoaderBase):
    """A direct subclass of the base class that yields batches as the reader returns them."""

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self.reader = reader

    def _iter_impl(self) -> Iterator[Any]:
        for item in self.reader:
            yield item.id.tolist()


class _Backwards(InMemBatchedDataLoader):
    """Yields batches of the rows that are in memory, in reverse order."""

    def __iter__(self) -> Iterator[Any]:
        for start in range(len(self._buffer[0]) - 1, -1, -self._batch_size):
            rows = slice(max(start - self._batch_size + 1, 0), start + 1)
            yield dict(zip(self._keys, (column[rows] for column in self._buffer), strict=True))


def _ids(batches: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


def _over_batches(loader: Any, place: Place, **arguments: Any) -> Any:
    url = place.numbers(11, group=4)
    with loader(make_batch_reader(url, **CALM), **arguments) as batches:
        return _ids(batches)


def _over_rows(loader: Any, place: Place, **arguments: Any) -> Any:
    fields = ["id", "vector"]
    reader = make_reader(place.dataset("places"), schema_fields=fields, **CALM)
    with loader(reader, **arguments) as batches:
        return _ids(batches)


def a_wrapped_pass(place: Place) -> Any:
    return [_over_batches(_Filled, place, batch_size=4), _over_rows(_Filled, place, batch_size=4)]


def subclass_with_custom_batches(place: Place) -> Any:
    return [_over_batches(_InPairs, place, batch_size=2), _over_rows(_InPairs, place, batch_size=2)]


def subclass_with_custom_batches_from_a_queue_of_batches(place: Place) -> Any:
    np.random.seed(3)  # noqa: NPY002
    return _over_batches(_InPairs, place, batch_size=2, shuffling_queue_capacity=5)


def subclass_with_custom_batches_from_a_queue_of_rows(place: Place) -> Any:
    np.random.seed(3)  # noqa: NPY002
    return _over_rows(_InPairs, place, batch_size=1, shuffling_queue_capacity=3)


def a_copied_pass_with_a_queue(place: Place) -> Any:
    np.random.seed(8)  # noqa: NPY002
    return _over_batches(_Copied, place, batch_size=3, shuffling_queue_capacity=4)


def subclass_with_custom_collation(place: Place) -> Any:
    def with_size(rows: list[Any]) -> Any:
        return {**decimal_friendly_collate(rows), "rows": len(rows)}

    url = place.numbers(5)
    with _InPairs(make_batch_reader(url, **CALM), batch_size=2, collate_fn=with_size) as batches:
        return list(batches)


def only_the_base_class(place: Place) -> Any:
    loader = _Plain(make_batch_reader(place.numbers(5, group=2), **CALM))
    return [list(loader), list(loader)]


def rows_in_memory_backwards(place: Place) -> Any:
    reader = make_batch_reader(place.numbers(5, group=2), **CALM)
    return _ids(_Backwards(reader, batch_size=2, rows_capacity=4))


def types_for_torch(place: Place) -> Any:
    types = ["bool", "int8", "int16", "uint8", "uint16", "uint32", "int64", "float32", "float64"]
    row: dict[str, Any] = {name: np.ones(2, name) for name in types}
    row.update(flag=np.bool_(True), small=np.uint16(1), text="a", number=1.5)
    _sanitize_pytorch_types(row)
    return row


def types_that_torch_does_not_support(place: Place) -> Any:
    values = {"text": np.array(["a"]), "raw": np.array([b"a"]), "any": np.array([{}]), "null": None}
    return [
        error_of(lambda n=name, v=value: _sanitize_pytorch_types({n: v}), f"Found None in {name}")
        if value is None
        else error_of(
            lambda n=name, v=value: _sanitize_pytorch_types({n: v}),
            f"Pytorch does not support arrays of string or object classes. Found in field {name}.",
        )
        for name, value in values.items()
    ]
