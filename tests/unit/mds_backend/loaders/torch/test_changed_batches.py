"""Changing batches before they reach the model, with `batch_map` and copies to a `device`."""

import re
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import pytest
import torch
from tests.kit.loaders import Negative, Own, column, in_either_order, loader_in
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import StreamingDataset
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, TransformError
from mdstorm_backend.loaders.torch import moved_batches
from mdstorm_backend.loaders.torch.moved_batches import map_tensors, on_device, repeated_rows

ROWS = 50
BATCH = 8


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    columns = {"number": range(ROWS), "text": [str(n) for n in range(ROWS)]}
    fields = {"number": "long", "text": "string"}
    return write_dataset(tmp_path_factory.mktemp("data") / "data", columns, fields).url


class OnDevice(torch.Tensor):
    """A tensor that records the streams that use it."""

    log: list[tuple[str, Any]]

    def record_stream(self, stream: Any) -> None:
        self.log.append(("used on", stream.name))


class Stream:
    def __init__(self, name: str, log: list[tuple[str, Any]]) -> None:
        self.name, self.log = name, log

    def record_event(self) -> str:
        event = f"event {sum(what == 'recorded on' for what, _ in self.log)}"
        self.log.append(("recorded on", self.name))
        return event

    def wait_event(self, event: str) -> None:
        self.log.append((f"{self.name} waits for", event))


class Device:
    """A substitute for ``torch.cuda`` that copies synchronously and records calls."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.now = Stream("compute", self.log)

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return True  # so that PyTorch does not seed this device in worker processes

    def Stream(self, device: torch.device) -> Stream:  # noqa: N802
        return Stream(f"copies to {device}", self.log)

    def current_stream(self, device: torch.device) -> Stream:
        return self.now

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.now = self.now, stream
        yield
        self.now = before

    def start_copy(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        self.log.append((f"copied on {self.now.name}", tensor[0].item()))
        found = tensor.clone().as_subclass(OnDevice)
        found.log = self.log
        return found


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    monkeypatch.setattr(torch, "xpu", found, raising=False)
    monkeypatch.setattr(moved_batches, "start_copy", found.start_copy)
    monkeypatch.setattr(moved_batches, "pinned_memory", partial(torch.empty, dtype=torch.uint8))
    return found


def pair(batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.stack([batch["number"], 2 * batch["number"]], 1), batch["number"]


def values(batches: Any) -> list[tuple[list[Any], list[Any]]]:
    return [(x.tolist(), y.tolist()) for x, y in batches]


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize("device_name", [None, "xpu"])
@pytest.mark.parametrize(
    "workers",
    [
        {},
        {"num_workers": 2},
        pytest.param({"num_workers": 2, "persistent_workers": True}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_batch_map_changes_all_batches_but_only_yielded_batches_are_counted(
    url: str, device: Device, order: str, device_name: str | None, workers: dict[str, Any]
) -> None:
    options = {"batch_map": pair, "device": device_name, **workers}
    loader, again = (loader_in(order, url, BATCH, **options) for _ in range(2))
    with loader, again, loader_in(order, url, BATCH, **workers) as plain:
        assert len(loader) == len(plain)
        expected = values(map(pair, plain))
        iterator = iter(loader)
        assert values(islice(iterator, 3)) == expected[:3]
        assert loader.num_samples_yielded == 3 * BATCH
        again.load_state_dict(loader.state_dict())
        assert values(again) == values(iterator) == expected[3:]


@pytest.mark.parametrize("persistent", [False, True])
def test_batch_map_is_called_in_worker_processes(url: str, persistent: bool) -> None:
    def where(batch: Any) -> Any:
        return getattr(torch.utils.data.get_worker_info(), "id", "main")

    loader = loader_in(
        "elastic", url, BATCH, batch_map=where, num_workers=2, persistent_workers=persistent
    )
    assert set(loader) == {0, 1}
    loader.close()
    assert set(loader_in("elastic", url, BATCH, batch_map=where)) == {"main"}


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", [StreamingDataset, Own])
def test_batch_map_that_returns_none_raises_error(url: str, kind: type, num_workers: int) -> None:
    def forgetful(batch: Any) -> None:
        batch["number"] += 1

    loader = loader_in("elastic", url, BATCH, kind, batch_map=forgetful, num_workers=num_workers)
    with pytest.raises(
        TransformError, match=r"batch_map returned None .*forgetful must return the model's inputs"
    ):
        next(iter(loader))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", [StreamingDataset, Own])
def test_key_error_in_batch_map_names_the_function(url: str, kind: type, num_workers: int) -> None:
    def scale_pixels(batch: Any) -> Any:
        return batch["pixels"]

    loader = loader_in("elastic", url, BATCH, kind, batch_map=scale_pixels, num_workers=num_workers)
    with pytest.raises(KeyError, match="pixels") as caught:
        next(iter(loader))
    shown = [str(caught.value), *getattr(caught.value, "__notes__", [])]
    found = r"The batch_map function \S*scale_pixels raised this error\."
    assert any(re.search(found, each) for each in shown)


@pytest.mark.parametrize("kind", [StreamingDataset, Own])
def test_lambda_as_batch_map_with_spawned_workers_raises_error(url: str, kind: type) -> None:
    spawned = {"num_workers": 1, "multiprocessing_context": "spawn"}
    loader = loader_in("elastic", url, BATCH, kind, batch_map=lambda batch: batch, **spawned)
    with pytest.raises(ArgumentTypeError, match=r"'spawn'.*at the top level of a module"):
        iter(loader)


@pytest.mark.long
def test_module_level_batch_map_is_called_in_spawned_workers(url: str) -> None:
    loader = loader_in(
        "elastic", url, BATCH, batch_map=pair, num_workers=1, multiprocessing_context="spawn"
    )
    assert values(loader) == values(loader_in("elastic", url, BATCH, batch_map=pair))


@pytest.mark.parametrize(("kind", "sign"), [(Negative, -1), (Own, 1)])
def test_batch_map_is_called_for_batches_of_samples(url: str, kind: type, sign: int) -> None:
    def signed(batch: Any) -> Any:
        return [sign * tensor for tensor in pair(batch)]

    of_samples = loader_in("elastic", url, BATCH, kind, batch_map=pair)
    assert values(of_samples) == values(loader_in("elastic", url, BATCH, batch_map=signed))


def test_error_in_batch_map_is_raised_and_its_batch_is_not_counted(url: str) -> None:
    seen = []

    def third(batch: Any) -> Any:
        seen.append(batch)
        if len(seen) == 3:
            raise RuntimeError("third")
        return batch["number"]

    loader = loader_in("elastic", url, BATCH, batch_map=third)
    with pytest.raises(RuntimeError, match="third"):
        list(loader)
    assert loader.num_samples_yielded == 16


@pytest.mark.parametrize(("name", "found"), [("xpu", "xpu:0"), ("xpu:1", "xpu:1")])
def test_next_batch_is_copied_to_the_device_while_current_batch_is_used(
    device: Device, name: str, found: str
) -> None:
    batches = ((torch.tensor([n], dtype=torch.uint8), n, 1) for n in range(3))
    moved = on_device(batches, torch.device(name))
    next(moved)
    copies = f"copies to {found}"
    first = [
        (f"copied on {copies}", 0),
        ("recorded on", copies),
        (f"copied on {copies}", 1),
        ("recorded on", copies),
        ("compute waits for", "event 0"),
        ("used on", "compute"),
    ]
    assert device.log == first
    next(moved)
    assert device.log[len(first) :] == [
        (f"copied on {copies}", 2),
        ("recorded on", copies),
        ("compute waits for", "event 1"),
        ("used on", "compute"),
    ]
    assert [mark for _, mark, _ in moved] == [2]
    assert device.log[-2:] == [("compute waits for", "event 2"), ("used on", "compute")]


def test_small_batches_are_copied_together_and_training_waits_for_each(device: Device) -> None:
    batches = ((torch.tensor([n], dtype=torch.uint8), n, 1) for n in range(5))
    moved = on_device(batches, torch.device("xpu"), rows_together=2)
    assert [(batch.item(), *marks) for batch, *marks in moved] == [(n, n, 1) for n in range(5)]
    copied = [value for what, value in device.log if what.startswith("copied")]
    assert copied == [0, 2, 4]  # the first batch in each group
    waited = [value for what, value in device.log if what == "compute waits for"]
    assert waited == [*["event 0"] * 2, *["event 1"] * 2, "event 2"]
    assert device.log.count(("used on", "compute")) == 5


def test_group_of_copied_batches_has_a_maximum_size(device: Device) -> None:
    batches = ((torch.tensor([n], dtype=torch.uint8), n, 1) for n in range(100))
    list(on_device(batches, torch.device("xpu"), rows_together=1_000))
    copied = [value for what, value in device.log if what.startswith("copied")]
    assert copied == [0, 32, 64, 96]


def test_copied_batch_is_freed_while_the_next_one_is_awaited(device: Device) -> None:
    batches = ((torch.ones(20_000), n, 1) for n in range(5))  # too large to be packed
    moved = on_device(batches, torch.device("xpu"))
    refs = [weakref.ref(next(moved)[0]) for _ in range(3)]
    assert [ref() for ref in refs] == [None] * 3


def test_batches_are_copied_together_unless_there_is_a_batch_map(url: str, device: Device) -> None:
    assert column(loader_in("exact", url, BATCH, device="xpu")) == column(
        loader_in("exact", url, BATCH)
    )
    assert sum(what.startswith("copied") for what, _ in device.log) == 1
    device.log.clear()
    list(loader_in("exact", url, BATCH, device="xpu", batch_map=dict))
    assert sum(what.startswith("copied") for what, _ in device.log) == -(-ROWS // BATCH)


def test_tensors_in_nested_batches_are_copied_to_the_device(url: str, device: Device) -> None:
    def nested(batch: dict[str, Any]) -> Any:
        return ({"number": batch["number"], "text": batch["text"]}, [batch["number"], None], "name")

    (features, pair, name), *_ = loader_in("exact", url, BATCH, batch_map=nested, device="xpu")
    assert type(features["number"]) is type(pair[0]) is OnDevice
    texts = [str(number) for number in pair[0].tolist()]
    assert (features["text"], pair[1], name) == (texts, None, "name")


def test_source_of_copied_batches_is_closed_after_an_error_or_early_end(device: Device) -> None:
    closed = []

    def batches() -> Any:
        try:
            yield torch.tensor([0]), 0, 1
            yield torch.tensor([1]), 1, 1
            raise RuntimeError("broken")
        finally:
            closed.append(True)

    for ends_early in (False, True):
        moved = on_device(batches(), torch.device("xpu"))
        assert next(moved)[1] == 0
        if ends_early:
            moved.close()
        else:
            with pytest.raises(RuntimeError, match="broken"):
                list(moved)
        assert closed.pop()


class Point(NamedTuple):
    x: Any
    y: Any


def test_copied_batches_keep_their_container_types() -> None:
    batch = (Point(torch.ones(1), "y"), OrderedDict(a=[torch.ones(2)]), ["t"])
    found = map_tensors(lambda tensor: tensor + 1, batch)
    assert (type(found), type(found[0]), type(found[1])) == (tuple, Point, OrderedDict)
    assert (found[0].x.tolist(), found[1]["a"][0].tolist()) == ([2], [2, 2])
    assert found[2] is batch[2]
    assert batch[0].x.tolist() == [1]


def test_device_cpu_leaves_batches_unchanged(url: str, device: Device) -> None:
    on_cpu = loader_in("exact", url, BATCH, device="cpu")
    assert column(on_cpu) == column(loader_in("exact", url, BATCH))
    assert not device.log


@pytest.mark.parametrize("kind", [StreamingDataset, Own])
def test_device_without_streams_gets_plain_copies(url: str, kind: type) -> None:
    batch, *_ = loader_in("elastic", url, BATCH, kind, device="meta")
    assert (batch["number"].device.type, batch["number"].shape) == ("meta", (BATCH,))


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without CUDA")
def test_missing_device_raises_error_naming_the_device(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'cuda:0'.* finds no CUDA device here"):
        list(loader_in("exact", url, BATCH, device="cuda:0"))


NUMBERS, REPEATED = torch.tensor([1, 2]), [1, 2, 1, 2, 1]
TEXTS, REPEATED_TEXTS = ["a", "b"], ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("batch", "longer"),
    [
        ({"number": NUMBERS, "text": TEXTS}, {"number": REPEATED, "text": REPEATED_TEXTS}),
        ({"matrix": torch.eye(2)}, {"matrix": [[1, 0], [0, 1], [1, 0], [0, 1], [1, 0]]}),
        (Point(NUMBERS, TEXTS), Point(REPEATED, REPEATED_TEXTS)),
        ([NUMBERS, NUMBERS], [REPEATED, REPEATED]),
        ([TEXTS, NUMBERS], [REPEATED_TEXTS, REPEATED]),
        ({"x": [NUMBERS, NUMBERS]}, {"x": [REPEATED, REPEATED]}),
        ({"scale": torch.tensor(2.0), "name": "batch"}, {"scale": 2, "name": "batch"}),
        ({"number": NUMBERS, "x": (1, 2)}, {"number": REPEATED, "x": (1, 2, 1, 2, 1)}),
    ],
)
def test_rows_are_repeated_in_batches_of_any_structure(batch: Any, longer: Any) -> None:
    found = map_tensors(torch.Tensor.tolist, repeated_rows(batch, 2, 5))
    assert type(found) is type(longer)
    assert found == longer
