"""`StreamingDataLoader` accepts the datasets that MosaicML Streaming's loader accepts.

Subclasses may use any attribute names, so our own state is kept in a single attribute.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.loaders import Launch, column, in_either_order
from tests.kit.small_datasets import write_numbers
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders import Consumer
from mdstorm_backend.loaders.torch.loader_passes import LoaderPasses

ROWS, SHARDS = 42, 4
ARGUMENTS: dict[str, Any] = {"batch_size": 4, "shuffle": True, "shuffle_seed": 3}


class Squares(StreamingDataset):
    """A dataset that yields squares from its own iterator."""

    def __iter__(self) -> Iterator[Any]:
        for sample in super().__iter__():
            yield {"number": sample["number"] ** 2}


class Wrapped(IterableDataset[Any]):
    def __init__(self, dataset: StreamingDataset) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        for sample in self.dataset:
            yield sample["number"], -sample["number"]


class OwnLoader(StreamingDataLoader):
    """A loader that counts samples in its own `__iter__`, as MosaicML Streaming's loader does."""

    def __iter__(self) -> Iterator[Any]:
        self.num_samples_yielded = 0
        for batch in DataLoader.__iter__(self):
            self.num_samples_yielded += self._get_batch_size(batch)
            yield batch


class CountedPacks(StreamingDataLoader):
    def _get_batch_size(self, batch: Any) -> int:
        return int(batch["number"].numel())


class Counting(StreamingDataset):
    """A dataset that adds a key to its states."""

    own = 0

    def state_dict(self, num_samples: int | None = None, from_beginning: bool = True) -> Any:
        return {**super().state_dict(num_samples, from_beginning), "own": 7}

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        self.own = obj["own"]
        super().load_state_dict(obj)


def samples(dataset: Any, count: int | None = None) -> list[int]:
    return [int(sample["number"]) for sample in islice(dataset, count)]


def order_of(url: str) -> list[int]:
    return samples(StreamingDataset(remote=url, **ARGUMENTS))


def flat(batches: Any) -> list[int]:
    return [int(n) for batch in batches for n in torch.as_tensor(batch).reshape(-1)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_subclass_with_its_own_iterator_has_a_length_and_states(url: str, num_workers: int) -> None:
    squares = [n**2 for n in order_of(url)]
    loader = StreamingDataLoader(Squares(remote=url, **ARGUMENTS), 4, num_workers=num_workers)
    iterator = iter(loader)
    begun = column(islice(iterator, 3))
    assert (len(loader), loader.num_samples_yielded) == (11, 12)
    state = loader.state_dict()
    assert state is not None
    assert (state["epoch"], state["sample_in_epoch"]) == (0, 12)
    assert flat(begun + column(iterator)) == squares
    again = StreamingDataLoader(Squares(remote=url, **ARGUMENTS), 4, num_workers=num_workers)
    again.load_state_dict(state)
    loaded = again.state_dict() or {}
    assert (loaded["epoch"], loaded["sample_in_epoch"]) == (0, 12)
    assert flat(begun + column(again)) == squares


def test_collate_fn_of_another_loader_counts_items_once(url: str) -> None:
    first = StreamingDataLoader(Squares(remote=url, **ARGUMENTS), 4)
    second = StreamingDataLoader(first.dataset, 4, collate_fn=first.collate_fn)
    assert len(column(islice(second, 3))) == 3
    assert at(second.state_dict()) == (0, 12)


def at(state: Any) -> tuple[int, int]:
    """Return the epoch of a state, and how many of its samples are consumed."""
    return state["epoch"], state["sample_in_epoch"]


@pytest.mark.parametrize("used", [1, 2, 5])
@pytest.mark.parametrize("batch_size", [4, None])
def test_state_of_counted_batches_excludes_prefetched_batch(
    url: str, used: int, batch_size: int | None
) -> None:
    def loader() -> StreamingDataLoader:
        return StreamingDataLoader(Squares(remote=url, **ARGUMENTS), batch_size)

    whole, begun = column(loader()), loader()
    with Consumer(lambda: True).requesting():
        column(islice(begun, used + 1))
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    assert column(resumed) == whole[used:]


def test_state_of_counted_batches_in_a_later_epoch_resumes_with_remaining_batches(
    url: str,
) -> None:
    def loader() -> StreamingDataLoader:
        return StreamingDataLoader(Squares(remote=url, num_epochs=3, **ARGUMENTS), 4)

    whole, begun, resumed = column(loader()), loader(), loader()
    column(islice(begun, 13))
    resumed.load_state_dict(begun.state_dict())
    assert column(resumed) == whole[13:]


@pytest.mark.parametrize("batch_size", [4, None])
def test_state_after_end_requested_ahead_resumes_with_last_counted_batch(
    url: str, batch_size: int | None
) -> None:
    def loader() -> StreamingDataLoader:
        return StreamingDataLoader(Squares(remote=url, **ARGUMENTS), batch_size)

    begun, resumed = loader(), loader()
    with Consumer(lambda: True).requesting():
        *_, last = column(begun)
    resumed.load_state_dict(begun.state_dict())
    assert column(resumed) == [last]


@pytest.mark.parametrize("batch_size", [4, None])
def test_state_of_copied_loader_excludes_prefetched_batch(url: str, batch_size: int | None) -> None:
    begun = StreamingDataLoader(Squares(remote=url, **ARGUMENTS), batch_size)
    with Consumer(lambda: True).requesting():
        column(islice(begun, 3))
    pickled: StreamingDataLoader = pickle.loads(pickle.dumps(begun))  # noqa: S301
    assert copy(begun).state_dict() == pickled.state_dict() == begun.state_dict()


@pytest.mark.parametrize("batch_size", [4, None])
def test_loader_of_an_older_pickle_without_mode_continues(url: str, batch_size: int | None) -> None:
    begun = StreamingDataLoader(StreamingDataset(remote=url, **ARGUMENTS), batch_size)
    column(islice(begun, 3))
    continued = copied(begun)
    older = object.__new__(LoaderPasses)
    older.__setstate__(begun._mdstorm.__getstate__())
    unpickled: StreamingDataLoader = object.__new__(StreamingDataLoader)
    unpickled.__setstate__({**vars(begun), "_mdstorm": older})
    assert unpickled.state_dict() == begun.state_dict()
    assert column(unpickled) == column(continued)


@pytest.mark.parametrize("batch_size", [4, None])
def test_samples_of_the_most_recently_advanced_iteration_are_counted(
    url: str, batch_size: int | None
) -> None:
    loader = StreamingDataLoader(Squares(remote=url, **ARGUMENTS), batch_size)
    first, second = iter(loader), iter(loader)
    found = []
    for iterator in (first, first, second, first, second):
        next(iterator)
        found.append(loader.num_samples_yielded)
    assert found == [number * (batch_size or 1) for number in (1, 2, 1, 3, 2)]


@pytest.mark.long
@in_either_order
@pytest.mark.parametrize("batch_size", [4, None])
def test_state_with_workers_in_a_later_epoch_resumes_or_raises_error(
    url: str, order: str, batch_size: int | None
) -> None:
    def loader_of_workers() -> StreamingDataLoader:
        dataset = made_in(order, Squares, url, num_epochs=2)
        return StreamingDataLoader(dataset, batch_size, num_workers=2)

    loader = loader_of_workers()
    iterator = iter(loader)
    begun: list[int] = []
    for samples in (40, 44, 48, 52 if batch_size else 50):
        begun += flat(column(islice(iterator, (samples - len(begun)) // (batch_size or 1))))
        # In elastic order, one worker begins the second epoch before the other.
        is_known = samples < ROWS or (order == "exact" and (batch_size or samples % 8 == 0))
        if is_known:
            resumed = loader_of_workers()
            resumed.load_state_dict(loader.state_dict())
            assert Counter(begun + flat(column(resumed))) == Counter(
                [n**2 for n in range(ROWS)] * 2
            )
        else:
            with pytest.raises(StateMismatchError, match="worker processes"):
                loader.state_dict()


class Packs(Squares):
    """A dataset whose iterator yields items that contain two samples each."""

    def __iter__(self) -> Iterator[Any]:
        singles = StreamingDataset.__iter__(self)
        for first in singles:
            yield {"number": torch.tensor([first["number"], next(singles)["number"]])}


class Twice(Squares):
    def __iter__(self) -> Iterator[Any]:
        for sample in StreamingDataset.__iter__(self):
            yield from (sample, sample)


class Evens(Squares):
    def __iter__(self) -> Iterator[Any]:
        return (s for s in StreamingDataset.__iter__(self) if s["number"] % 2 == 0)


def made_in(order: str, kind: type[StreamingDataset], url: str, **options: Any) -> StreamingDataset:
    if order == "elastic":
        return kind(remote=url, **{**ARGUMENTS, **options})
    return kind(remote=url, order=ExactOrder(3, shuffle_rows=True), **{"batch_size": 4, **options})


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", [Packs, Twice, Evens])
def test_state_with_items_that_are_not_samples_raises_error(
    url: str, kind: type[StreamingDataset], num_workers: int, order: str
) -> None:
    loader = StreamingDataLoader(made_in(order, kind, url), 4, num_workers=num_workers)
    assert set(flat(batch["number"] for batch in loader)) == set(
        range(0, ROWS, 2 if kind is Evens else 1)
    )
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(StateMismatchError, match=rf"{kind.__name__}\.__iter__ yields items"):
        loader.state_dict()


@pytest.mark.long
@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_loader_that_counts_samples_in_its_items_resumes_from_its_state(
    url: str, num_workers: int, order: str
) -> None:
    def loader() -> StreamingDataLoader:
        return CountedPacks(made_in(order, Packs, url), 2, num_workers=num_workers)

    first, second = loader(), loader()
    begun = column(islice(first, 3))
    second.load_state_dict(first.state_dict())
    assert flat(begun + column(second)) == flat(column(loader()))


@pytest.mark.long
@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_worker_state_within_a_dataset_batch_raises_error(
    url: str, num_workers: int, order: str
) -> None:
    def loader() -> StreamingDataLoader:
        dataset = made_in(order, Squares, url, batch_size=8)
        return StreamingDataLoader(dataset, 4, num_workers=num_workers)

    expected, seen = Counter(flat(column(loader()))), []
    first = loader()
    for number, batch in enumerate(first, 1):
        seen += flat([batch["number"]])
        if num_workers and number % 4 and number < 11:
            with pytest.raises(
                StateMismatchError, match="worker processes read 8 samples at a time"
            ):
                first.state_dict()
            continue
        second = loader()
        second.load_state_dict(first.state_dict())
        is_last = number == len(first)
        assert Counter(flat(column(second))) == (expected if is_last else expected - Counter(seen))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loader_with_its_own_iterator_has_states(url: str, num_workers: int) -> None:
    loader = OwnLoader(StreamingDataset(remote=url, **ARGUMENTS), 4, num_workers=num_workers)
    begun = column(islice(loader, 5))
    assert (len(loader), loader.num_samples_yielded) == (11, 20)
    state = loader.state_dict()
    again = StreamingDataLoader(StreamingDataset(remote=url, **ARGUMENTS), 4)
    again.load_state_dict(state)
    assert flat(begun + column(again)) == order_of(url)


def test_loader_without_batch_size_yields_samples(url: str) -> None:
    loader = StreamingDataLoader(StreamingDataset(remote=url, **ARGUMENTS), batch_size=None)
    iterator = iter(loader)
    begun = samples(iterator, 5)
    assert (len(loader), loader.num_samples_yielded) == (ROWS, 5)
    again = StreamingDataLoader(StreamingDataset(remote=url, **ARGUMENTS), batch_size=None)
    again.load_state_dict(loader.state_dict())
    assert begun + samples(again) == order_of(url)
    with pytest.raises(InvalidArgumentError, match="batch_size=None yields single"):
        StreamingDataLoader(StreamingDataset(remote=url), None, batch_map=len)


def test_datasets_of_other_classes_are_read_and_counted(url: str) -> None:
    wrapped = StreamingDataLoader(Wrapped(StreamingDataset(remote=url, **ARGUMENTS)), 5)
    batches = list(islice(wrapped, 3))
    assert flat(first for first, _ in batches) == order_of(url)[:15]
    assert wrapped.num_samples_yielded == 15
    assert wrapped.state_dict() is None
    wrapped.load_state_dict({"epoch": 3})
    numbers = TensorDataset(torch.arange(10))
    mapped = StreamingDataLoader(numbers, 4, True, drop_last=True)
    assert len({*flat(batch for (batch,) in mapped)}) == 8
    assert (len(mapped), mapped.num_samples_yielded, mapped.state_dict()) == (2, 8, None)
    sampled = StreamingDataLoader(numbers, batch_sampler=[[1, 2], [7]])
    assert flat(batch for (batch,) in sampled) == [1, 2, 7]
    assert sampled.num_samples_yielded == 3


@pytest.mark.filterwarnings("ignore:some ranks read:UserWarning")
@pytest.mark.parametrize("num_epochs", [1, 3])
@pytest.mark.parametrize(("kind", "batch_size"), [(Squares, 4), (StreamingDataset, None)])
def test_states_at_end_of_uneven_shares_are_the_same_on_all_ranks(
    url: str, kind: Any, batch_size: int | None, num_epochs: int
) -> None:
    ranks, seen, states, again = 4, Counter[int](), [], Counter[int]()

    def loader_of(rank: int) -> StreamingDataLoader[Any]:
        order = ExactOrder(3, shuffle_rows=True, rank=rank, world_size=ranks)
        dataset = kind(local=url, order=order, num_epochs=num_epochs)
        return StreamingDataLoader(dataset, batch_size)

    for rank in range(ranks):
        loader = loader_of(rank)
        seen.update(int(n) for batch in loader for n in np.atleast_1d(batch["number"]))
        states.append(loader.state_dict())
    for rank, state in enumerate(states):
        loader = loader_of(rank)
        loader.load_state_dict(state)
        again.update(int(n) for batch in loader for n in np.atleast_1d(batch["number"]))
    assert set(seen.values()) == {num_epochs}
    assert states == [states[0]] * ranks
    assert again == seen


@pytest.mark.filterwarnings("ignore:some ranks read:UserWarning")
@pytest.mark.parametrize(("kind", "power"), [(Squares, 2), (StreamingDataset, 1)])
def test_state_of_finished_rank_keeps_samples_of_other_ranks(
    tmp_path: Path, kind: Any, power: int
) -> None:
    numbers, ranks = write_numbers(tmp_path, 5), 2

    def loader_of(rank: int) -> StreamingDataLoader[Any]:
        order = ExactOrder(rank=rank, world_size=ranks)
        return StreamingDataLoader(kind(local=numbers.url, order=order), None)

    seen, states = Counter[int](), []
    for rank in range(ranks):
        loader = loader_of(rank)
        seen.update(int(item["number"]) for item in islice(loader, 2))
        states.append(loader.state_dict())
    assert states[0] == states[1]
    for rank in range(ranks):
        loader = loader_of(rank)
        loader.load_state_dict(states[1])
        seen.update(int(item["number"]) for item in loader)
    assert seen == Counter(n**power for n in range(5))


def test_arguments_can_be_positional(url: str) -> None:
    dataset = StreamingDataset(remote=url, **ARGUMENTS)
    loader = StreamingDataLoader(dataset, 4, None, None, None, 0, len, False, True)
    assert (loader.num_workers, loader.drop_last, list(loader)) == (0, True, [4] * 10)
    with pytest.raises(TypeError, match="multiple values for argument 'num_workers'"):
        StreamingDataLoader(dataset, 4, None, None, None, 0, num_workers=2)
    with pytest.raises(TypeError, match="too many positional arguments"):
        StreamingDataLoader(dataset, 4, *[None] * 12)


def test_loader_state_includes_keys_that_a_dataset_subclass_adds(url: str) -> None:
    loader = StreamingDataLoader(Counting(remote=url, **ARGUMENTS), 4)
    begun = column(islice(loader, 3))
    state = loader.state_dict()
    assert state is not None
    assert (state["own"], state["sample_in_epoch"]) == (7, 12)
    dataset = Counting(remote=url, **ARGUMENTS)
    again = StreamingDataLoader(dataset, 4)
    again.load_state_dict(state)
    assert flat(begun + column(again)) == order_of(url)
    assert dataset.own == 7


def test_json_values_are_collated_as_in_pytorch(tmp_path: Path) -> None:
    values: dict[str, list[Any]] = {
        "alike": [{"x": n, "words": ["a", str(n)]} for n in range(4)],
        "lists": [[n, n + 1] for n in range(4)],
        "ragged": [[0] * n for n in range(4)],
        "nulls": [None, 1, 2, 3],
    }
    with MDSWriter(columns=dict.fromkeys(values, "json"), out=str(tmp_path)) as writer:
        for row in zip(*values.values(), strict=True):
            writer.write(dict(zip(values, row, strict=True)))
    dataset = StreamingDataset(local=str(tmp_path), batch_size=4)
    (batch,) = StreamingDataLoader(dataset, batch_size=4)
    assert batch["alike"]["x"].tolist() == [0, 1, 2, 3]
    assert [*map(list, batch["alike"]["words"])] == [["a"] * 4, ["0", "1", "2", "3"]]
    assert [column.tolist() for column in batch["lists"]] == [[0, 1, 2, 3], [1, 2, 3, 4]]
    assert batch["ragged"] == values["ragged"]
    assert batch["nulls"] == values["nulls"]


def test_state_before_the_first_epoch_resumes_in_a_different_world(
    url: str, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(0, 3)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    state = StreamingDataset(remote=url, batch_size=4).state_dict(0, True)
    assert (state["epoch"], state["num_canonical_nodes"]) == (-1, 3)
    launch(0, 2)
    dataset = StreamingDataset(remote=url, **ARGUMENTS)
    dataset.load_state_dict(state)
    assert samples(dataset) == order_of(url)


def test_shuffle_block_smaller_than_a_shard_warns(url: str) -> None:
    dataset = StreamingDataset(remote=url, shuffle_block_size=4, **ARGUMENTS)
    with pytest.warns(UserWarning, match="Shuffle block size was smaller than shard size"):
        list(dataset)


#: Public attributes, whose names subclasses of MosaicML Streaming's class cannot reuse either.
PUBLIC = {
    *("allow_unsafe_types", "batch_size", "batching_method", "cache_limit", "cache_usage"),
    *("epoch_seed_change", "epoch_size", "get_item", "initial_physical_nodes", "length"),
    *("load_state_dict", "next_epoch", "num_canonical_nodes", "num_samples", "num_shards"),
    *("num_streams", "partition_algo", "predownload", "prepare_shard", "replication"),
    *("sample_offset_per_shard", "sample_offset_per_stream", "samples_per_shard"),
    *("samples_per_stream", "sampling_granularity", "sampling_method"),
    *("shard_offset_per_stream", "shards", "shards_per_stream", "shuffle", "shuffle_algo"),
    *("shuffle_block_size", "shuffle_seed", "size", "spanner", "state_dict"),
    *("stream_per_shard", "streams"),
}


def names_within(thing: object) -> set[str]:
    """Return all names that an attribute of a subclass could hide, and others that users choose."""
    held = vars(thing)
    inner = {*dir(thing)}.union(*map(dir, held.values()))
    inner |= {"options", "samples", "reading", "_sample", "dataset", "order", "columns"}
    inner |= {"tokenizer"}
    return {name for name in inner if not name.startswith("__")} - {*held}


#: Attribute names that the subclasses below set; tests fill the list before instantiation.
NAMES: list[str] = []


class Before(StreamingDataset):
    def __init__(self, **arguments: Any) -> None:
        for name in NAMES:
            setattr(self, name, name)
        super().__init__(**arguments)


class After(StreamingDataset):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for name in NAMES:
            setattr(self, name, name)


class AfterWithItems(After):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(at)


class Loader(StreamingDataLoader):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name in NAMES:
            setattr(self, name, name)


def copied(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301  # made here


@pytest.mark.parametrize("kind", [Before, After, AfterWithItems])
def test_subclass_of_dataset_may_reuse_names_of_internal_attributes(
    url: str, kind: Callable[..., StreamingDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = StreamingDataset(remote=url, **ARGUMENTS)
    of_torch = {*dir(StreamingDataset.__mro__[-3])} | {"register_function", "functions"}
    monkeypatch.setitem(globals(), "NAMES", sorted(names_within(plain) - PUBLIC - of_torch))
    named = kind(remote=url, **ARGUMENTS)
    assert named.options == "options"  # type: ignore[attr-defined]
    expected = [samples(plain) for _ in range(2)]
    assert samples(named) == expected[0]
    assert samples(copied(named)) == expected[1]

    loader = StreamingDataLoader(kind(remote=url, **ARGUMENTS), batch_size=4, num_workers=2)
    batches = column(islice(loader, 3))
    state = loader.state_dict()
    again = StreamingDataLoader(kind(remote=url, **ARGUMENTS), batch_size=4)
    again.load_state_dict(state)
    assert [n for batch in batches + column(again) for n in batch] == expected[0]


def test_subclass_of_loader_may_reuse_names_of_internal_attributes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = StreamingDataset(remote=url, **ARGUMENTS)
    plain = StreamingDataLoader(dataset, 4)
    expected = [column(plain) for _ in range(2)]
    ours = names_within(plain) - {*dir(DataLoader), *vars(plain)}
    mosaics = {"num_samples_yielded", "state_dict", "load_state_dict", "_get_batch_size"}
    free = ours - mosaics
    monkeypatch.setitem(globals(), "NAMES", sorted(free))
    loader = Loader(StreamingDataset(remote=url, **ARGUMENTS), 4)
    assert loader.passes == "passes"  # type: ignore[attr-defined]
    iterator = iter(loader)
    begun = column(islice(iterator, 4))
    assert begun + column(copied(loader)) == expected[0]
    assert begun + column(iterator) == expected[0]
    assert column(loader) == expected[1]
