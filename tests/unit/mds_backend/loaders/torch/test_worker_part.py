"""States of worker processes in PyTorch's own loader, and of their parent.

The workers share a record of the next epoch.
"""

import copy
import multiprocessing
import os
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.loaders import Launch, Where, dataset_in, in_either_order, read_all, rows
from tests.kit.small_datasets import write_numbers
from torch.utils.data import DataLoader, get_worker_info

from mdstorm_backend import ExactOrder, StreamingDataset
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.epochs import Worker
from mdstorm_backend.loaders.shared_record import SharedRecord
from mdstorm_backend.loaders.torch.sample_iteration import SampleIteration
from mdstorm_backend.loaders.torch.streaming_dataset import samples_of_iteration

ROWS, SHARDS = 103, 4
BATCH = 8
WORKERS = 2


class Stated(StreamingDataset):
    """Yields each sample with its worker, and the states before and after the sample."""

    def __iter__(self) -> Any:
        samples = super().__iter__()
        state = self.state_dict()
        for sample in samples:
            before, state = state, self.state_dict()
            yield get_worker_info().id, int(sample["number"]), before, state


def dataset_of(url: str, order: str, **options: Any) -> Stated:
    if order == "exact":
        follows = options.pop("follows_world", False)
        exact = ExactOrder(3, shuffle_shards=True, window=50, follows_world=follows)
        return Stated(local=url, order=exact, batch_size=BATCH, **options)
    return Stated(local=url, batch_size=BATCH, shuffle=True, **options)


def load(states: dict[int, Any], worker: int) -> None:
    get_worker_info().dataset.load_state_dict(states[worker])


def read(
    dataset: StreamingDataset, states: dict[int, Any] | None = None, num_workers: int = WORKERS
) -> dict[int, list[tuple[int, Any, Any]]]:
    """Read with workers, and return each worker's numbers and states."""
    init: Callable[[int], None] | None = None if states is None else partial(load, states)
    loader = DataLoader(
        dataset, None, num_workers=num_workers, worker_init_fn=init, collate_fn=lambda item: item
    )
    by_worker = defaultdict(list)
    for worker, *item in loader:
        by_worker[worker].append(tuple(item))
    return by_worker


def numbers(items: list[tuple[int, Any, Any]]) -> list[int]:
    return [number for number, _, _ in items]


SOME = Where(lambda number: number % 3 > 0)


@pytest.mark.parametrize(
    ("order", "transform"),
    [
        ("elastic", None),
        pytest.param("exact", SOME, marks=pytest.mark.long),
        pytest.param("elastic", SOME, marks=pytest.mark.long),
        pytest.param("exact", None, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("num_epochs", [pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.parametrize(
    "after",
    [
        (16, 8),
        *(pytest.param(x, marks=pytest.mark.long) for x in [(0, 0), (1, 0), (21, 30), (48, 50)]),
    ],
)
def test_each_worker_resumes_at_its_position(
    url: str, order: str, num_epochs: int, transform: Any, after: tuple[int, int]
) -> None:
    options = {"num_epochs": num_epochs, "transform": transform}
    whole = read(dataset_of(url, order, **options))
    left = {w: min(count, len(whole[w]) - 1) for w, count in enumerate(after)}
    states = {w: whole[w][count][1] for w, count in left.items()}
    again = read(dataset_of(url, order, **options), states)
    for worker, count in left.items():
        assert numbers(again[worker]) == numbers(whole[worker][count:])


def test_worker_resumes_at_every_sample_in_uneven_batches(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On several ranks, a transform that drops rows causes uneven batches."""
    monkeypatch.setattr("mdstorm_backend.read.reader.BLOCK_ROWS", 24)
    order = ExactOrder(3, shuffle_rows=True, world_size=2)
    transform = Where(lambda number: number % 7 > 1)

    def read_part(state: Any = None) -> tuple[list[int], list[Any]]:
        dataset = StreamingDataset(
            local=url, order=order, batch_size=BATCH, transform=transform, num_epochs=2
        )
        opened, worker = dataset._mdstorm, Worker(0, 1, group=1)
        part = SampleIteration(opened.options, opened.epochs, BATCH, worker, state)
        found, states = [], [part.state_dict()]
        for sample in samples_of_iteration(dataset, part):
            found.append(int(sample["number"]))
            states.append(part.state_dict())
        return found, states

    whole, states = read_part()
    for count, state in enumerate(states):
        assert read_part(state)[0] == whole[count:]


@pytest.mark.long
@in_either_order
def test_finished_worker_resumes_with_no_samples(url: str, order: str) -> None:
    whole = read(dataset_of(url, order))
    states = {worker: items[-1][2] for worker, items in whole.items()}
    assert not read(dataset_of(url, order), states)


def test_pass_after_a_resumed_epoch_reads_the_next_epoch(url: str) -> None:
    first = dataset_of(url, "elastic")
    epochs = [read(first) for _ in range(2)]
    states = {worker: items[10][1] for worker, items in epochs[0].items()}
    second = dataset_of(url, "elastic")
    rest = read(second, states)
    assert {w: numbers(i) for w, i in rest.items()} == {
        w: numbers(i[10:]) for w, i in epochs[0].items()
    }
    assert {w: numbers(i) for w, i in read(second).items()} == {
        w: numbers(i) for w, i in epochs[1].items()
    }


@pytest.mark.long
@in_either_order
def test_state_from_another_worker_raises_error(url: str, order: str) -> None:
    items = read(dataset_of(url, order))
    states = {worker: its[0][1] for worker, its in items.items()}
    with pytest.raises(StateMismatchError, match="belongs to one worker process"):
        dataset_of(url, order).load_state_dict(states[0])
    with pytest.raises(StateMismatchError, match="number"):
        read(dataset_of(url, order), {0: states[1], 1: states[0]})
    with pytest.raises(StateMismatchError, match="num_workers"):
        read(dataset_of(url, order), states, num_workers=1)
    del states[0]["mdstorm"]["worker"]["part"]
    with pytest.raises(StateMismatchError, match="part"):
        read(dataset_of(url, order), states)


@pytest.mark.long
@in_either_order
def test_worker_state_from_a_different_world_raises_error(
    url: str, order: str, launch: Launch
) -> None:
    options = {"follows_world": True} if order == "exact" else {}
    states = {w: its[5][1] for w, its in read(dataset_of(url, order, **options)).items()}
    launch(0, 2)
    with pytest.raises(StateMismatchError, match="world_size: 1 there, 2 here"):
        read(dataset_of(url, order, **options), states)


def test_worker_that_has_not_started_has_no_state(url: str) -> None:
    dataset = StreamingDataset(local=url, batch_size=BATCH)
    loader = DataLoader(
        dataset, BATCH, num_workers=1, worker_init_fn=lambda _: dataset.state_dict()
    )
    with pytest.raises(StateMismatchError, match="has not started reading"):
        read_all(loader)


def test_forked_worker_does_not_inherit_its_parents_position(url: str) -> None:
    dataset = StreamingDataset(local=url, batch_size=BATCH)
    _ = list(islice(dataset, 3))
    loader = DataLoader(
        dataset,
        BATCH,
        num_workers=1,
        multiprocessing_context="fork",
        worker_init_fn=lambda _: dataset.state_dict(),
    )
    with pytest.raises(StateMismatchError, match="has not started reading"):
        read_all(loader)


def plain(url: str, order: str, num_workers: int = 0, **options: Any) -> DataLoader[Any]:
    dataset = dataset_in(order, url, BATCH)
    return DataLoader(dataset, BATCH, num_workers=num_workers, **options)


@pytest.mark.long
def test_spawned_workers_have_their_parents_world(url: str, launch: Launch) -> None:
    launch(1, 2)
    iterator = iter(plain(url, "elastic", 1, multiprocessing_context="spawn"))
    launch(0, 1)
    assert len(rows(iterator)) == ROWS // 2 + 1


def test_workers_have_the_world_of_their_start_and_not_of_an_earlier_pickle(
    url: str, launch: Launch
) -> None:
    loader = pickle.loads(pickle.dumps(plain(url, "elastic", 1)))  # noqa: S301
    launch(1, 2)
    assert len(rows(loader)) == ROWS // 2 + 1


@pytest.mark.long
@in_either_order
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_only_the_workers_first_iteration_resumes_the_parents_state(
    url: str, order: str, method: str
) -> None:
    first: Any = plain(url, order)
    begun = rows(islice(first, 4))
    second: Any = plain(url, order, 2, multiprocessing_context=method)
    second.dataset.load_state_dict(first.dataset.state_dict())
    assert second.dataset.state_dict() == first.dataset.state_dict()
    torch.manual_seed(1)
    rest = rows(second)
    torch.manual_seed(1)  # the same seed as before, but a new iteration
    following = rows(second)
    for samples in (begun + rest, following):
        assert Counter(samples) == Counter(range(ROWS))
    assert following != begun + rest  # the next epoch has a different permutation


def add(record: SharedRecord[Any], times: int) -> None:
    for _ in range(times):
        record.update(lambda content: {"count": content["count"] + 1})


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])  # noqa: S301
def test_copied_shared_record_is_separate(duplicate: Any) -> None:
    record = SharedRecord({"count": 3})
    other = duplicate(record)
    add(record, 1)
    assert (record.read(), other.read()) == ({"count": 4}, {"count": 3})


def part_and_add(record: SharedRecord[Any], go: Any, results: Any) -> None:
    go.acquire()
    record.part()
    add(record, 1)
    results.put(record.read())


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_process_separated_from_a_shared_record_keeps_the_inherited_content(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    record, go, results = SharedRecord({"count": 3}), context.Semaphore(0), context.SimpleQueue()
    record.part()  # has no effect, because the record belongs to this process
    processes = [context.Process(target=part_and_add, args=(record, go, results)) for _ in range(2)]
    for process in processes:
        process.start()
    add(record, 5)
    for _ in processes:
        go.release()
    assert [results.get() for _ in processes] == [{"count": 4}] * 2
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert record.read() == {"count": 8}


def test_shorter_content_replaces_longer_content_in_a_shared_record() -> None:
    record = SharedRecord({"text": "x" * 100})
    record.pass_on()  # from now on, the content is in a file
    record.update(lambda content: {"text": ""})
    assert record.read() == {"text": ""}


def test_shared_record_is_unchanged_after_failed_change() -> None:
    record = SharedRecord({"count": 0})

    def fail(content: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        record.update(fail)
    assert record.read() == {"count": 0}


def test_shared_record_leaves_no_files(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(os.listdir("/dev/fd"))
    record = SharedRecord[Any]({})
    record.pass_on()
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/dev/fd")) == before + 1
    del record
    assert len(os.listdir("/dev/fd")) == before


class Late(StreamingDataset):
    """A dataset whose second worker starts after the first has read its part of an epoch."""

    has_read: Any = multiprocessing.get_context("fork").Event()

    def __iter__(self) -> Any:
        worker = get_worker_info().id
        if worker == 1:
            assert self.has_read.wait(60)
        for read, sample in enumerate(super().__iter__()):
            if worker == 0 and read == BATCH:
                self.has_read.set()
            yield sample


@pytest.mark.parametrize("num_epochs", [2, None])
def test_worker_that_starts_an_epoch_late_reads_its_part_of_all_epochs(
    tmp_path: Path, num_epochs: int | None
) -> None:
    url = write_numbers(tmp_path, WORKERS * BATCH).url
    options: dict[str, Any] = {"shuffle": True, "num_epochs": num_epochs, "batch_size": BATCH}
    dataset = Late(local=url, **options)
    dataset.has_read.clear()
    loader = DataLoader(dataset, BATCH, num_workers=WORKERS, multiprocessing_context="fork")
    found = [n for batch in islice(loader, 4) for n in batch["number"].tolist()]
    expected = StreamingDataset(local=url, **options)
    assert Counter(found) == Counter(int(s["number"]) for s in islice(expected, 4 * BATCH))
