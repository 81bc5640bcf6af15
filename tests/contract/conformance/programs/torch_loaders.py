"""`petastorm.pytorch`: the loaders on both readers."""

from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from petastorm import make_batch_reader, make_reader
from petastorm.pytorch import (
    BatchedDataLoader,
    DataLoader,
    InMemBatchedDataLoader,
    LoaderBase,
    decimal_friendly_collate,
)
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM


def _batches(loader: Any, url: str, reader: dict[str, Any], **arguments: Any) -> Any:
    with loader(make_batch_reader(url, **{**CALM, **reader}), **arguments) as batches:
        return list(batches)


def _ids(batches: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


def batches_are_dictionaries(place: Place) -> Any:
    return _batches(DataLoader, place.numbers(), {}, batch_size=4)


def batches_have_one_row_by_default(place: Place) -> Any:
    return _batches(DataLoader, place.numbers(2), {})


def batches_span_epochs(place: Place) -> Any:
    found = _batches(DataLoader, place.numbers(10), {"num_epochs": 2}, batch_size=4)
    return _ids(found)


def batched_batches(place: Place) -> Any:
    return _batches(BatchedDataLoader, place.numbers(), {}, batch_size=4)


def batched_batches_span_epochs(place: Place) -> Any:
    found = _batches(BatchedDataLoader, place.numbers(10, group=3), {"num_epochs": 2}, batch_size=4)
    return _ids(found)


def types_of_numbers(place: Place) -> Any:
    types = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.float32(), pa.float64()]
    columns = {f"c{i}": pa.array([0, 1], type_) for i, type_ in enumerate(types)}
    url = place.parquet({**columns, "flag": pa.array([True, False])})
    return [_batches(loader, url, {}, batch_size=2) for loader in (DataLoader, BatchedDataLoader)]


def arrays_of_numbers(place: Place) -> Any:
    columns = {
        "v": pa.array([[0.5, 1.5], [2.5, 3.5]], pa.list_(pa.float32())),
        "b": pa.array([[True], [False]], pa.list_(pa.bool_())),
    }
    url = place.parquet(columns)
    return [_batches(loader, url, {}, batch_size=2) for loader in (DataLoader, BatchedDataLoader)]


def integers_with_nulls(place: Place) -> Any:
    url = place.parquet({"id": pa.array([1, None, 3], pa.int32())})
    return [_batches(loader, url, {}, batch_size=2) for loader in (DataLoader, BatchedDataLoader)]


def rows_of_a_row_reader(place: Place) -> Any:
    fields = ["id", "flag", "name", "price", "matrix"]
    with make_reader(place.dataset("codecs"), schema_fields=fields, **CALM) as reader:
        return [
            {**{name: batch[name] for name in sorted(batch)}, "name": list(map(str, batch["name"]))}
            for batch in DataLoader(reader, batch_size=4)
        ]


def deep_images_become_wider(place: Place) -> Any:
    with make_reader(place.dataset("codecs"), schema_fields=["grey"], **CALM) as reader:
        batch, *_ = DataLoader(reader, batch_size=2)
        return batch


def batched_rows_of_a_row_reader(place: Place) -> Any:
    fields = ["id", "matrix"]
    with make_reader(place.dataset("codecs"), schema_fields=fields, **CALM) as reader:
        return [
            {name: batch[name] for name in sorted(batch)}
            for batch in BatchedDataLoader(reader, batch_size=4)
        ]


def transforming_columns(place: Place) -> Any:
    def to_half(column: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(column).to(torch.float16)

    return _batches(BatchedDataLoader, place.numbers(3), {}, batch_size=2, transform_fn=to_half)


def shuffling_keeps_rows_together(place: Place) -> Any:
    found = _batches(DataLoader, place.numbers(20), {}, batch_size=4, shuffling_queue_capacity=50)
    return [bool((batch["x"] == batch["id"] / 2).all()) for batch in found]


def iterating_again_after_a_short_batch(place: Place) -> Any:
    with DataLoader(make_batch_reader(place.numbers(5), **CALM), batch_size=4) as loader:
        return [_ids(loader), _ids(loader)]


def batched_iterating_again(place: Place) -> Any:
    with BatchedDataLoader(make_batch_reader(place.numbers(5), **CALM), batch_size=4) as loader:
        return [_ids(loader), _ids(loader)]


def iterating_again_after_a_break(place: Place) -> Any:
    with DataLoader(make_batch_reader(place.numbers(8), **CALM), batch_size=2) as loader:
        for _ in loader:
            break
        return error_of(lambda: _ids(loader), "do not support resetting a reader while in the")


def iterating_after_an_error(place: Place) -> Any:
    def fail(rows: list[Any]) -> Any:
        raise LookupError("my own")

    with DataLoader(make_batch_reader(place.numbers(2), **CALM), collate_fn=fail) as loader:
        return [
            error_of(lambda: list(loader), "my own"),
            error_of(
                lambda: list(loader),
                "Cannot start a new iteration because last time iteration failed with error",
            ),
        ]


def attributes(place: Place) -> Any:
    with DataLoader(make_batch_reader(place.numbers(2), **CALM), 2) as one:
        found = [one.batch_size, one.shuffling_queue_capacity, one.reader.batched_output]
    with BatchedDataLoader(make_batch_reader(place.numbers(2), **CALM), 3) as other:
        found += [other.batch_size, isinstance(one, LoaderBase), isinstance(other, LoaderBase)]
    return found


def loaders_have_no_length(place: Place) -> Any:
    with DataLoader(make_batch_reader(place.numbers(2), **CALM)) as loader:
        return error_of(lambda: len(loader))


def in_memory_shuffling_is_seeded(place: Place) -> Any:
    def read(seed: int) -> list[list[int]]:
        reader = make_batch_reader(place.numbers(20), **CALM)
        with InMemBatchedDataLoader(reader, 8, num_epochs=2, seed=seed, shuffle=True) as loader:
            return _ids(loader)

    once, again, other = read(1), read(1), read(2)
    epochs = [list(chain.from_iterable(part)) for part in (once[:3], once[3:])]
    return [
        once == again,
        once == other,
        [sorted(ids) for ids in epochs],
        epochs[0] == epochs[1],
        once,
    ]


def collating_by_hand(place: Place) -> Any:
    rows = [
        {"d": Decimal("1.5"), "i": 1, "s": "x", "t": [np.int64(1), 2], "n": {"f": 0.5}},
        {"d": Decimal("2.5"), "i": 2, "s": "z", "t": [np.int64(3), 4], "n": {"f": 1.5}},
    ]
    return decimal_friendly_collate(rows)


def collating_nothing(place: Place) -> Any:
    return [
        error_of(lambda: decimal_friendly_collate([])),
        decimal_friendly_collate([{}]),
        error_of(lambda: decimal_friendly_collate([{"a": None}])),
    ]
