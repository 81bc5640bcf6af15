"""A first loop that was left after one batch does not count, and one that is held does."""

import copy
import json
import logging
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from tests.kit.readers import write_parquet
from tests.kit.small_datasets import write_numbers

from mdstorm import make_batch_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

ROWS = 60
Make = Callable[[Path], Any]


def streaming(data: Path, *, order: bool = True, **options: Any) -> Any:
    given: dict[str, Any] = {"order": ExactOrder(shuffle_rows=True, seed=3)}
    if not order:
        given = {"batch_size": 10, "shuffle": True, "num_canonical_nodes": 1}
    return StreamingDataLoader(StreamingDataset(local=str(data / "mds"), **given), 10, **options)


def over_reader(kind: Any) -> Make:
    def make(data: Path) -> Any:
        url = (data / "parquet").as_uri()
        return kind(make_batch_reader(url, num_epochs=1, seed=3, shuffle_rows=True), batch_size=10)

    return make


def converter(data: Path) -> SparkDatasetConverter:
    return make_spark_converter((data / "mds").as_uri())


def prepared(data: Path) -> Any:
    accelerate = pytest.importorskip("accelerate")
    return accelerate.Accelerator(cpu=True).prepare(streaming(data))


def tf_dataset(data: Path) -> Any:
    pytest.importorskip("tensorflow")
    return converter(data).make_tf_dataset(10, num_epochs=1, shuffle_rows=True, seed=3)


LOADERS: dict[str, Make] = {
    "streaming": streaming,
    "workers": lambda data: streaming(data, num_workers=2, persistent_workers=True),
    "converter": lambda data: converter(data).make_torch_dataloader(
        10, num_epochs=1, shuffle_rows=True, seed=3
    ),
    "BatchedDataLoader": over_reader(BatchedDataLoader),
    "DataLoader": over_reader(DataLoader),
    "Accelerate": prepared,
    "TensorFlow": tf_dataset,
}
SLOW = {"workers", "Accelerate", "TensorFlow"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("peeks")
    write_numbers(at / "mds", ROWS, tasks=4)
    write_parquet(at / "parquet", {"number": range(ROWS)}, 15)
    return at


def batch_of(batch: Any) -> list[int]:
    numbers = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(number) for number in numbers]


def read(loader: Any) -> list[list[int]]:
    return [batch_of(batch) for batch in loader]


def rows(batches: list[list[int]]) -> list[int]:
    return sorted(chain(*batches))


def loop_that_breaks(loader: Any) -> None:
    for _ in loader:
        break


def loop_that_fails(loader: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_in_first_batch(loader)


def fail_in_first_batch(loader: Any) -> None:
    for _ in loader:
        _ = 1 / 0


def closed(loader: Any) -> Any:
    batches = own_generator(loader)
    next(batches)
    batches.close()
    return batches


def own_generator(loader: Any) -> Iterator[Any]:
    yield from loader


def held(wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def take(loader: Any) -> Any:
        batches = wrap(loader)
        next(batches)
        return batches

    return take


def kept_error(loader: Any) -> Any:
    def fail() -> None:
        batches = iter(loader)
        next(batches)
        raise ValueError(batches)

    try:
        fail()
    except ValueError as error:
        return error


#: Ways to take the first batch, so that nothing refers to the iteration afterwards.
LEFT: dict[str, Callable[[Any], Any]] = {
    "next(iter())": lambda loader: [next(iter(loader)), None][1],
    "break": loop_that_breaks,
    "error": loop_that_fails,
    "closed": closed,
    "zip": lambda loader: [next(zip(range(3), loader, strict=False)), None][1],
}
#: Ways to take it that return what refers to the iteration.
HELD: dict[str, Callable[[Any], Any]] = {
    "variable": held(iter),
    "list": lambda loader: [held(iter)(loader)],
    "own generator": held(own_generator),
    "zip": held(lambda loader: zip(range(3), loader, strict=False)),
    "enumerate": held(enumerate),
    "local of a kept traceback": kept_error,
}
CASES = [
    pytest.param(kind, way, id=f"{kind}-{way}")
    for kind in LOADERS
    for way in (LEFT if kind not in SLOW else ["next(iter())"])
]
CASES_HELD = [
    pytest.param(kind, way, id=f"{kind}-{way}")
    for kind in LOADERS
    for way in (HELD if kind not in SLOW else ["variable"])
]


def saved(loader: Any) -> Any:
    return json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize(("kind", "way"), CASES)
def test_peek_that_has_been_left_does_not_count(kind: str, way: str, data: Path) -> None:
    loader, other = LOADERS[kind](data), LOADERS[kind](data)
    LEFT[way](loader)
    other.load_state_dict(saved(loader))
    batches = read(other)
    assert rows(batches) == list(range(ROWS))
    if hasattr(loader, "trace"):
        assert loader.trace().rows(slice(0, None)).tolist() == [*chain(*batches)]
    if isinstance(loader, StreamingDataLoader):
        assert read(copy.deepcopy(loader)) == batches
    assert read(loader) == batches


@pytest.mark.parametrize(("kind", "way"), CASES_HELD)
def test_iteration_that_is_held_counts_after_its_first_batch(
    kind: str, way: str, data: Path
) -> None:
    loader, other = LOADERS[kind](data), LOADERS[kind](data)
    (first, *rest), running = read(LOADERS[kind](data)), HELD[way](loader)
    other.load_state_dict(saved(loader))
    assert read(other) == rest
    if isinstance(loader, StreamingDataLoader):
        assert read(copy.deepcopy(loader)) == rest
    del running
    other.load_state_dict(saved(loader))
    assert read(other) == [first, *rest]


@pytest.mark.parametrize("kind", LOADERS)
def test_state_after_a_longer_loop_has_the_rest_of_its_epoch(kind: str, data: Path) -> None:
    loader, other = LOADERS[kind](data), LOADERS[kind](data)
    batches = iter(loader)
    begun = [batch_of(next(batches)) for _ in range(2)]
    del batches
    other.load_state_dict(saved(loader))
    assert rows(begun + read(other)) == list(range(ROWS))
    assert read(loader) != begun + read(other)  # the next epoch


@pytest.mark.parametrize("before", ["load", "set_epoch"])
def test_peek_after_a_position_was_chosen_does_not_count(before: str, data: Path) -> None:
    loader, other = streaming(data), streaming(data)
    if before == "load":
        batches = iter(other)
        begun = [batch_of(next(batches)) for _ in range(2)]
        loader.load_state_dict(saved(other))
    else:
        begun = []
        loader.set_epoch(3)
    chosen = saved(loader)
    next(iter(loader))
    assert saved(loader) == chosen
    other.load_state_dict(saved(loader))
    assert rows(begun + read(other)) == list(range(ROWS))


def test_elastic_state_counts_a_peek_and_a_copy_does_not(data: Path) -> None:
    loader, other = streaming(data, order=False), streaming(data, order=False)
    (first, *rest) = read(streaming(data, order=False))
    for running in (None, iter(loader)):
        next(iter(loader) if running is None else running)
        other.load_state_dict(saved(loader))
        assert read(other) == rest
        assert read(copy.deepcopy(loader)) == [first, *rest]
        loader.load_state_dict(saved(streaming(data, order=False)))


def test_number_of_samples_that_is_passed_counts(data: Path) -> None:
    loader, other = streaming(data), streaming(data)
    rest = read(streaming(data))[1:]
    next(iter(loader))
    other.load_state_dict(loader.dataset.state_dict(10))
    assert read(other) == rest


def test_state_at_the_loaded_position_after_a_batch_is_logged(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader, other = streaming(data), streaming(data)
    with caplog.at_level(logging.INFO, "mdstorm_backend"):
        loader.load_state_dict(saved(other))
        saved(loader)
        assert not caplog.messages
        next(iter(loader))
        saved(loader)
    (message,) = caplog.messages
    assert "does not count the batch" in message
    assert "Keep the iterator" in message
    assert caplog.records[0].levelname == "INFO"


def test_peek_of_one_loader_does_not_count_after_another_has_read(data: Path) -> None:
    loader = streaming(data)
    other = StreamingDataLoader(loader.dataset, 10)
    next(iter(loader))
    read(other)
    assert (saved(loader)["epoch"], saved(loader)["sample_in_epoch"]) == (1, 0)
