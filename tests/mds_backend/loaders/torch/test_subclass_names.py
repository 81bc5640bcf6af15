"""Subclasses give attributes whatever names they like: our own state is behind one of them."""

import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import column
from torch.utils.data import DataLoader

from mdstorm_backend import StreamingDataLoader, StreamingDataset

ROWS, SHARDS = 40, 4

#: What MosaicML Streaming's own class has, so that a subclass cannot have it for itself there.
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
    """Every name that a subclass could collide with, and some that programs use."""
    inner = {*dir(thing), *dir(thing._mdstorm)}  # type: ignore[attr-defined]
    inner |= {
        "options",
        "samples",
        "reading",
        "_sample",
        "dataset",
        "order",
        "columns",
        "tokenizer",
    }
    return {name for name in inner if not name.startswith("__")} - {"_mdstorm"}


#: Names that the subclasses below set; filled before they are made.
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


ARGUMENTS: dict[str, Any] = {"batch_size": 4, "shuffle": True, "shuffle_seed": 3}


def numbers_of(dataset: Any, count: int | None = None) -> list[int]:
    return [int(sample["number"]) for sample in islice(dataset, count)]


def copied(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301  # made here


@pytest.mark.parametrize("kind", [Before, After, AfterWithItems])
def test_names_of_a_dataset_are_free(
    url: str, kind: Callable[..., StreamingDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = StreamingDataset(remote=url, **ARGUMENTS)
    of_torch = {*dir(StreamingDataset.__mro__[-3])} | {"register_function", "functions"}
    monkeypatch.setitem(globals(), "NAMES", sorted(names_within(plain) - PUBLIC - of_torch))
    named = kind(remote=url, **ARGUMENTS)
    assert named.options == "options"  # type: ignore[attr-defined]
    expected = [numbers_of(plain) for _ in range(2)]
    assert numbers_of(named) == expected[0]
    assert numbers_of(copied(named)) == expected[1]

    loader = StreamingDataLoader(kind(remote=url, **ARGUMENTS), batch_size=4, num_workers=2)
    batches = column(islice(loader, 3))
    state = loader.state_dict()
    again = StreamingDataLoader(kind(remote=url, **ARGUMENTS), batch_size=4)
    again.load_state_dict(state)
    assert [n for batch in batches + column(again) for n in batch] == expected[0]


def test_names_of_a_loader_are_free(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = StreamingDataset(remote=url, **ARGUMENTS)
    plain = StreamingDataLoader(dataset, 4)
    expected = [column(plain) for _ in range(2)]
    ours = names_within(plain) - {*dir(DataLoader), *vars(plain)}
    mosaics = {"num_samples_yielded", "state_dict", "load_state_dict", "_get_batch_size"}
    free = ours - mosaics
    monkeypatch.setitem(globals(), "NAMES", sorted(free))
    loader = Loader(StreamingDataset(remote=url, **ARGUMENTS), 4)
    assert loader.runner == "runner"  # type: ignore[attr-defined]
    iterator = iter(loader)
    begun = column(islice(iterator, 4))
    assert begun + column(copied(loader)) == expected[0]
    assert begun + column(iterator) == expected[0]
    assert column(loader) == expected[1]
