"""Batches, lifetime and errors of worker processes."""

import gc
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import check_output
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.kit.clocks import Clock
from tests.kit.loaders import assert_same_tensors, column, taken, torch_loader
from tests.kit.small_datasets import write_dataset, write_numbers
from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory

from mdstorm_backend import (
    Dataset,
    ExactOrder,
    MDSWriter,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
)
from mdstorm_backend.base.recorder import Cause, Recorder
from mdstorm_backend.errors import DatasetNotFoundError, LostBatchesError, TransformError
from mdstorm_backend.loaders.torch.batch_workers import Message, received
from mdstorm_backend.loaders.torch.packed_tensors import pack_batches, unpack_batches

ROWS, SHARDS = 60, 6
SHUFFLED = {"shuffle": True, "shuffle_seed": 3}
EXACT = {"shuffle": {"seed": 3, "window": 20}, "num_epochs": 2}


def elastic_loader(dataset: Dataset, **options: Any) -> StreamingDataLoader:
    source = StreamingDataset(local=dataset.url, batch_size=8, **SHUFFLED)
    return StreamingDataLoader(source, batch_size=8, **options)


def exact_loader(dataset: Dataset, **options: Any) -> StreamingDataLoader:
    plain = torch_loader(dataset, batch_size=8, **EXACT)
    return StreamingDataLoader(plain.dataset, batch_size=8, **options)  # type: ignore[arg-type]


MAKERS = pytest.mark.parametrize("make", [elastic_loader, exact_loader])
PERSISTENT: dict[str, Any] = {"num_workers": 2, "persistent_workers": True}


class StartedProcesses:
    """The worker processes that run now and were started during a test, by their ids."""

    def __init__(self) -> None:
        self._before = set(multiprocessing.active_children())  # of other loaders

    def __call__(self) -> set[int]:
        return {process.pid for process in {*multiprocessing.active_children()} - self._before}  # type: ignore[misc]


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_each_pass_keeps_the_number_of_workers_with_which_it_began(
    numbers: Dataset, before: int, after: int
) -> None:
    def make(num_workers: int) -> StreamingDataLoader:
        # A segment for each of the epochs.
        source = StreamingDataset(local=numbers.url, batch_size=8, num_epochs=2, **SHUFFLED)
        return StreamingDataLoader(source, batch_size=8, num_workers=num_workers)

    loader, expected = make(before), make(0)
    batches = iter(loader)
    first = next(batches)
    loader.num_workers = after
    assert column([first, *batches]) == column(expected)
    assert column(loader) == column(expected)


def test_small_tensors_in_a_batch_are_sent_together() -> None:
    tensors = {
        "flags": torch.tensor([True, False, True]),
        "ids": torch.arange(6).reshape(3, 2),
        "none": torch.empty(0, 4, dtype=torch.float16),
        "every second": torch.arange(6.0)[::2],
        "scalar": torch.tensor(7, dtype=torch.int16),
    }
    large = torch.zeros(1 << 20, dtype=torch.uint8)
    batch = ({**tensors, "texts": ["a", "b"]}, large, (tensors["ids"], None))
    small, rest = pack_batches([batch])
    assert small.memory is not None
    sizes = [tensor.nbytes for tensor in (*tensors.values(), tensors["ids"])]
    assert small.memory.nbytes == sum(-(-size // 16) * 16 for size in sizes)
    [(named, found, (ids, none))] = unpack_batches((small, rest))
    assert list(named) == [*tensors, "texts"]
    assert named["texts"] == ["a", "b"]
    assert found is large
    assert none is None
    assert_same_tensors({name: named[name] for name in tensors}, tensors)
    assert_same_tensors(ids, tensors["ids"])


def test_workers_send_a_ranks_empty_last_batch(tmp_path: Path) -> None:
    columns = {"number": range(64), "other": range(64)}
    dataset = write_dataset(tmp_path / "data", columns, dict.fromkeys(columns, "long"))
    order = ExactOrder(seed=7)
    sizes, rows = [], []
    for rank in range(3):
        source = StreamingDataset(local=dataset.url, batch_size=1, order=order, world=(rank, 3))
        batches = [*StreamingDataLoader(source, batch_size=1, num_workers=1)]
        sizes.append([len(batch["number"]) for batch in batches])
        rows += [row for batch in batches for row in batch["number"].tolist()]
    assert sorted(rows) == list(range(64))
    assert sorted(sizes) == [[1] * 21 + [0], [1] * 21 + [0], [1] * 22]


class Decoded(StreamingDataset):
    """Decodes a column that contains bytes in one stream and images in the other."""

    def __getitem__(self, index: Any) -> Any:
        picture = super().__getitem__(index)["picture"]
        if isinstance(picture, bytes):
            picture = Image.open(BytesIO(picture))
        return int(np.asarray(picture)[0, 0])


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_read_streams_whose_columns_have_different_types(
    tmp_path: Path, persistent: bool
) -> None:
    for folder, encoding, first in (("raw", "bytes", 0), ("decoded", "png", 10)):
        with MDSWriter(out=str(tmp_path / folder), columns={"picture": encoding}) as writer:
            for n in range(first, first + 10):
                image: Any = Image.new("L", (2, 2), n)
                if encoding == "bytes":
                    image.save(memory := BytesIO(), format="png")
                    image = memory.getvalue()
                writer.write({"picture": image})
    streams = [Stream(local=str(tmp_path / folder)) for folder in ("raw", "decoded")]
    dataset = Decoded(streams=streams, batch_size=4)
    loader = StreamingDataLoader(
        dataset, batch_size=4, num_workers=1, persistent_workers=persistent
    )
    for _ in range(2):
        assert sorted(value for batch in loader for value in batch.tolist()) == list(range(20))
    loader.close()


@pytest.mark.parametrize("batch", [torch.ones(3), {"x": torch.ones(3), "t": [1.5]}, [1, 2], None])
def test_batches_of_any_type_are_received_unchanged(batch: Any) -> None:
    assert_same_tensors(unpack_batches(pack_batches([batch, batch])), [batch, batch])


def test_large_tensor_slice_is_sent_without_the_rest_of_the_tensor() -> None:
    whole = torch.arange(1 << 18)
    small, [found] = pack_batches([{"part": whole[: 1 << 17], "whole": whole}])
    assert found["part"].untyped_storage().nbytes() == 1 << 20
    assert found["whole"] is whole
    assert unpack_batches((small, [found]))[0]["part"].equal(whole[: 1 << 17])


def test_pinned_batches_are_received_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, device=None: self.clone())
    batch = ({"x": torch.arange(3), "z": torch.ones(3)}, torch.zeros(3))
    sent = pin_memory(Message(0, 0, pack_batches([batch, batch]), [1, 2], [3, 3], [], {}))
    assert_same_tensors(unpack_batches(sent.batches), [batch, batch])


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_lost_worker_message_raises_error_instead_of_losing_rows(lost: int) -> None:
    """PyTorch skips to the next message if /dev/shm is full."""
    batches = [
        pack_batches([{"x": torch.ones(3)}]),
        pack_batches([{"x": torch.ones(3)}]),
        pack_batches([]),
    ]
    sizes: list[list[int]] = [[3], [3], []]
    sent = [
        Message(0, n, batch, list(range(len(size))), size, [0.0], {})
        for n, (batch, size) in enumerate(zip(batches, sizes, strict=True))
    ]
    assert len(list(received(iter(sent), 1, Recorder(), ""))) == 2
    del sent[lost]
    with pytest.raises(LostBatchesError, match="shm-size"):
        list(received(iter(sent), 1, Recorder(), ""))


@pytest.mark.parametrize(("seconds", "is_slow"), [(30, True), (3, False), (1, False)])
def test_log_tells_once_if_batches_take_longer_to_send_than_to_read(
    seconds: int, is_slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()

    def messages() -> Iterator[Message]:
        for number in range(4):
            is_end = number == 3
            # Starting and ending a process takes long.
            clock.advance(seconds if number in (1, 2) else 100)
            batches: list[Any] = [] if is_end else [torch.ones(3)]
            sizes = [3 for _ in batches]
            yield Message(0, number, pack_batches(batches), sizes, sizes, [0.0, 2.0, 0.0, 0.0], {})

    recorder = Recorder(clock)
    for _ in range(2):
        assert len(list(received(messages(), 1, recorder, f"sent in {seconds} s"))) == 3
    logged = [r for r in caplog.records if f"sent in {seconds} s" in r.getMessage()]
    assert len(logged) == is_slow
    assert recorder.spans[Cause.DECODING] == 2 * (200 + 2 * seconds)


def same_memory(first: Any, second: Any) -> bool:
    places = {batch["number"].untyped_storage().data_ptr() for batch in (first, second)}
    return len(places) == 1


@pytest.mark.parametrize(
    ("options", "together"), [({}, True), ({"batch_map": lambda batch: batch}, False)]
)
def test_workers_send_several_batches_at_once_unless_there_is_a_batch_map(
    numbers: Dataset, options: dict[str, Any], together: bool
) -> None:
    batches = list(elastic_loader(numbers, num_workers=2, **options))
    # Each worker sends its first batch alone, and the next two together.
    assert same_memory(batches[2], batches[4]) is together
    assert same_memory(batches[3], batches[5]) is together
    assert not same_memory(batches[2], batches[3])


def test_changing_a_batch_in_place_does_not_change_the_versions_of_other_batches(
    numbers: Dataset,
) -> None:
    batches = list(elastic_loader(numbers, num_workers=1))
    first, second = (batch["number"].double() for batch in batches[1:3])
    assert same_memory(*batches[1:3])
    versions = [batch["number"]._version for batch in batches]
    batches[1]["number"].zero_()
    assert [batch["number"]._version for batch in batches[2:]] == versions[2:]
    assert not first.equal(second)
    assert batches[2]["number"].double().equal(second)


def passes(loader: StreamingDataLoader) -> Any:
    return [column(loader) for _ in range(3)]


def left(loader: StreamingDataLoader) -> Any:
    taken(loader, 2)
    return column(loader)


def nested(loader: StreamingDataLoader) -> Any:
    around = iter(loader)
    return column(islice(around, 1)), column(loader), column(around), column(loader)


def gone_back(loader: StreamingDataLoader) -> Any:
    iterator = iter(loader)
    begun = column(islice(iterator, 3))
    state = loader.state_dict()
    rest = column(iterator)
    column(loader)
    loader.load_state_dict(state)
    again = column(loader)
    assert again == rest
    return begun, again


@pytest.mark.matrix
@MAKERS
@pytest.mark.parametrize(
    "read",
    [*(pytest.param(one, marks=pytest.mark.long) for one in (passes, left)), nested, gone_back],
)
def test_persistent_workers_yield_the_same_batches_as_no_workers(
    numbers: Dataset, make: Any, read: Callable[[StreamingDataLoader], Any]
) -> None:
    started, loader, plain = StartedProcesses(), make(numbers, **PERSISTENT), make(numbers)
    column(loader), column(plain)
    processes = started()
    assert read(loader) == read(plain)
    assert started() == processes or read is nested  # a nested loop starts new workers
    loader.close()
    assert not started()
    assert column(loader) == column(plain)
    loader.close()


@pytest.mark.long
def test_worker_reads_thousands_of_streams(numbers: Dataset) -> None:
    streams = [Stream(local=numbers.url) for _ in range(2_000)]
    dataset = StreamingDataset(streams=streams, batch_size=10_000)
    assert len(pickle.dumps(dataset)) > 1 << 16  # exceeds a pipe's buffer
    loader = StreamingDataLoader(dataset, 10_000, num_workers=1)
    assert len(column(loader)) == 12


def test_persistent_workers_use_settings_changed_between_passes(numbers: Dataset) -> None:
    loader = elastic_loader(numbers, **PERSISTENT)
    column(loader)
    loader.dataset.shuffle = False  # type: ignore[attr-defined]
    assert [number for batch in column(loader) for number in batch] == list(range(ROWS))
    loader.close()


@pytest.mark.long
@pytest.mark.parametrize("make", [elastic_loader, exact_loader])
def test_spawned_workers_yield_the_same_batches(numbers: Dataset, make: Any) -> None:
    spawned = {"num_workers": 1, "multiprocessing_context": "spawn"}
    is_elastic = make is elastic_loader
    loader = make(numbers, persistent_workers=is_elastic, **spawned)
    plain = make(numbers, num_workers=1)
    for _ in range(1 + is_elastic):  # two passes if the workers persist
        assert column(loader) == column(plain)
    loader.close()


@pytest.mark.matrix
@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_worker_error_is_raised_in_the_loop(
    tmp_path: Path, num_workers: int, persistent: bool, cached: bool
) -> None:
    dataset = write_numbers(tmp_path / "broken", ROWS, tasks=6)
    Path(dataset.location.path, dataset.index.shards[3].raw_data.basename).unlink()
    place = {"remote" if cached else "local": dataset.location.path}
    if cached:
        place["local"] = str(tmp_path / "cache")
    source = StreamingDataset(**place, batch_size=8)
    options = {"persistent_workers": True} if persistent and num_workers else {}
    loader = StreamingDataLoader(source, batch_size=8, num_workers=num_workers, **options)
    gc.collect()  # ends the workers of loaders that other tests have left
    before = set(multiprocessing.active_children())  # of loaders interrupted while they started
    for _ in range(2):
        with pytest.raises(DatasetNotFoundError, match="is gone"):
            list(loader)
        assert not set(multiprocessing.active_children()) - before


class OwnIterator(StreamingDataset):
    """PyTorch makes the batches of a dataset with its own iterator."""

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()


def unpicklable(kind: str, first: int, numbers: Any) -> Any:
    """Return the numbers, or what cannot be sent if one of them is at least `first`."""
    if max(torch.as_tensor(numbers).reshape(-1)) < first:
        return numbers
    if kind == "gradient":
        return torch.ones(3, requires_grad=True) * 2
    return (lambda: 0) if kind == "lambda" else type("Local", (), {})()


def loader_with(made_by: str, url: str, change: Callable[[Any], Any]) -> StreamingDataLoader:
    """Return a loader with a worker that applies `change` to the numbers of its batches."""

    def batch_map(batch: Any) -> Any:
        return {"number": change(batch["number"])}

    def collate(samples: list[Any]) -> Any:
        return {"number": change([sample["number"] for sample in samples])}

    class OwnSamples(StreamingDataset):
        def __getitem__(self, index: Any) -> Any:
            return {"number": change(super().__getitem__(index)["number"])}

    options: dict[str, Any] = {"num_workers": 1, "timeout": 20}
    if made_by == "batch_map":
        options["batch_map"] = batch_map
    elif made_by == "collate_fn":
        options["collate_fn"] = collate
    elif made_by == "__iter__":
        return StreamingDataLoader(OwnIterator(local=url), 8, collate_fn=collate, **options)
    elif made_by == "single samples":
        return StreamingDataLoader(OwnSamples(local=url, batch_size=8), None, **options)
    else:
        options["collate_fn"] = list
        return StreamingDataLoader(OwnSamples(local=url, batch_size=8), 8, **options)
    return StreamingDataLoader(StreamingDataset(local=url, batch_size=8), 8, **options)


@pytest.mark.matrix
@pytest.mark.parametrize("first", [0, 40])
@pytest.mark.parametrize(
    ("made_by", "kind", "problem"),
    [
        ("batch_map", "gradient", "requires_grad"),
        ("batch_map", "lambda", "lambda"),
        ("collate_fn", "local class", "Local"),
        ("__getitem__", "lambda", "lambda"),
        ("__iter__", "gradient", "requires_grad"),
        ("single samples", "local class", "Local"),
    ],
)
def test_batch_that_workers_cannot_send_raises_error_with_the_fix(
    numbers: Dataset, made_by: str, kind: str, problem: str, first: int
) -> None:
    """PyTorch prints an error, and waits forever for the batch."""
    loader = loader_with(made_by, numbers.url, partial(unpicklable, kind, first))
    received = 0
    with pytest.raises(TransformError, match=rf"{problem}[\s\S]*num_workers=0"):  # noqa: PT012
        for _ in loader:
            received += 1
    assert received == first // (1 if made_by == "single samples" else 8)


class EndsWorker:
    """An object whose worker process ends while the loader receives it."""

    def __reduce__(self) -> Any:
        return end_worker, (os.getpid(),)


def end_worker(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    raise ConnectionResetError("as if the worker's tensors were being received")


# PyTorch may notice the worker's end once more while it stops the other workers, in a finalizer.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("made_by", ["batch_map", "__iter__"])
def test_exit_of_a_worker_while_its_batch_is_received_is_the_error(
    numbers: Dataset, made_by: str
) -> None:
    loader = loader_with(made_by, numbers.url, lambda _: EndsWorker())
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"DataLoader worker .*(exit|kill)"):
            list(loader)


class Slow(StreamingDataset):
    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        if sample_id % 2:
            threading.Event().wait()  # for ever: what it waits for does not come
        return super().get_item(sample_id, retry)


def read_with_workers(kind: str, url: str, sending: Connection) -> None:
    """Send the ids of two worker processes after the first batch, and wait."""
    loader: Any
    if kind == "plain":
        loader = DataLoader(Slow(local=url, batch_size=1), batch_size=1, num_workers=2)
    else:
        source = StreamingDataset(local=url, batch_size=1)
        persistent = kind == "persistent"
        loader = StreamingDataLoader(source, 1, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    next(batches)
    sending.send([process.pid for process in multiprocessing.active_children()])
    signal.pause()


@pytest.mark.parametrize(
    "kind",
    ["ours", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("plain", "persistent"))],
)
def test_workers_end_when_their_parent_is_killed(numbers: Dataset, kind: str) -> None:
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    parent = fork.Process(target=read_with_workers, args=(kind, numbers.url, sending))
    parent.start()
    handles = [os.pidfd_open(process) for process in receiving.recv()]
    parent.kill()
    parent.join()
    assert len(handles) == 2
    for handle in handles:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        assert ended.poll(60_000)
        os.close(handle)


def test_abandoned_loader_ends_its_workers(numbers: Dataset) -> None:
    started, loader = StartedProcesses(), elastic_loader(numbers, **PERSISTENT)
    column(loader)
    assert len(started()) == 2
    del loader
    gc.collect()
    assert not started()


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_end_if_an_error_leaves_their_loader_in_a_cycle(
    numbers: Dataset, persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(loader: StreamingDataLoader) -> list[int]:
        batches = iter(loader)
        next(batches)
        try:
            raise ValueError("raised by a training step")
        except ValueError as error:
            in_cycle = error  # its traceback refers to this frame and the loader
            assert in_cycle
        return [process.pid for process in set(multiprocessing.active_children()) - before]

    before = set(multiprocessing.active_children())  # of loaders interrupted while they started
    killed: list[Any] = []
    kill = BaseProcess.terminate

    def terminate(process: BaseProcess) -> None:
        killed.append(process)
        kill(process)

    monkeypatch.setattr(BaseProcess, "terminate", terminate)
    processes = train(elastic_loader(numbers, num_workers=2, persistent_workers=persistent))
    gc.collect()
    assert len(processes) == 2
    assert not any(is_alive(process) for process in processes)
    assert not killed  # PyTorch kills workers that have not stopped after a few seconds


_READ_BY_WORKERS = """
import sys
from mdstorm_backend import StreamingDataLoader, StreamingDataset
for batch in StreamingDataLoader(StreamingDataset(local=sys.argv[1]), num_workers=1): pass
print("pandas" in sys.modules)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("encoding", "value", "imported"), [("str", "a", True), ("int64", 1, False)]
)
def test_pandas_is_imported_before_forking_workers_only_if_arrow_needs_it(
    tmp_path: Path, encoding: str, value: Any, imported: bool
) -> None:
    with MDSWriter(out=str(tmp_path), columns={"column": encoding}) as writer:
        writer.write({"column": value})
    command = [sys.executable, "-c", _READ_BY_WORKERS, str(tmp_path)]
    assert check_output(command, text=True).strip() == str(imported)
