"""Dataset arguments are attributes, and changes take effect at the next iteration."""

import inspect
import pickle
import re
from collections import Counter
from copy import copy, deepcopy
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.loaders import column
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import ElasticOrder, ExactOrder, Stream, StreamingDataLoader, StreamingDataset
from mdstorm_backend.base import declared
from mdstorm_backend.datasets.stream_files import StreamDefaults
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, MDStormError
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.read import Steps

GIVEN: dict[str, Any] = {"shuffle": True, "num_canonical_nodes": 2, "shuffle_block_size": 20}

CHANGES: list[tuple[str, Any]] = [
    ("shuffle", False),
    ("shuffle_algo", "py1s"),
    ("shuffle_seed", 11),
    ("shuffle_block_size", 100),
    ("num_canonical_nodes", 4),
    ("batch_size", 8),
    ("batching_method", "per_stream"),
    ("epoch_size", 30),
    ("sampling_method", "fixed"),
    ("predownload", 50),
    ("partition_algo", "orig"),
]


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    sizes = {"a": 60, "b": 40}
    return [write_numbers(tmp_path / name, rows, tasks=4).url for name, rows in sizes.items()]


def dataset_of(urls: list[str], **arguments: Any) -> StreamingDataset:
    streams = [Stream(remote=url) for url in urls]
    return StreamingDataset(streams=streams, **{"batch_size": 4, **GIVEN, **arguments})


def negated(samples: list[Any]) -> Any:
    return {"number": torch.tensor([-sample["number"] for sample in samples])}


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("collate_fn", [None, torch.utils.data.default_collate])
def test_collate_fn_assigned_to_a_loader_applies_to_the_next_pass(
    urls: list[str], collate_fn: Any, num_workers: int
) -> None:
    loader, other = (
        StreamingDataLoader(
            dataset_of(urls), batch_size=4, collate_fn=collate_fn, num_workers=num_workers
        )
        for _ in range(2)
    )
    iterator = iter(loader)
    before = column(islice(iterator, 1))
    loader.collate_fn = negated
    assert before + column(iterator) == column(other)
    assert column(loader) == [[-number for number in batch] for batch in column(other)]
    loader.collate_fn = other.collate_fn
    assert column(loader) == column(other)


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_changed_setting_applies_to_the_next_pass(
    urls: list[str], name: str, value: Any, num_workers: int
) -> None:
    dataset, expected = dataset_of(urls), dataset_of(urls, **{name: value})
    loader = StreamingDataLoader(dataset, batch_size=4, num_workers=num_workers)
    iterator = iter(loader)
    before = column(islice(iterator, 3))
    setattr(dataset, name, value)
    assert before + column(iterator) == column(StreamingDataLoader(dataset_of(urls), 4))
    assert getattr(dataset, name) == value
    expected.next_epoch = 1
    other = StreamingDataLoader(expected, batch_size=4, num_workers=num_workers)
    assert column(loader) == column(other)
    assert [s["number"] for s in dataset] == [s["number"] for s in expected]
    assert len(dataset) == len(expected)


def test_epoch_size_as_string_and_omitted_predownload_become_numbers(urls: list[str]) -> None:
    dataset = StreamingDataset(remote=urls[0], batch_size=4, epoch_size="0.05k")
    assert (dataset.epoch_size, dataset.predownload, dataset.shuffle_seed) == (50, 32, 9176)
    assert StreamingDataset(remote=urls[0]).predownload == 64


@pytest.mark.parametrize("nodes", [1, 2])
def test_unset_settings_get_values_in_the_first_epoch(
    nodes: int, urls: list[str], launch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(0, nodes)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    dataset = StreamingDataset(remote=urls[0], batch_size=4, shuffle=True)
    assert (dataset.num_canonical_nodes, dataset.shuffle_block_size) == (None, None)
    list(dataset)
    assert (dataset.num_canonical_nodes, dataset.shuffle_block_size) == (nodes, 4_000_000 // nodes)
    dataset.shuffle_algo = "py1s"
    assert dataset.num_canonical_nodes == nodes


def test_seed_set_after_loading_a_state_applies_to_the_next_epoch(urls: list[str]) -> None:
    first = StreamingDataset(remote=urls[0], batch_size=4, shuffle=True, shuffle_seed=5)
    state = first.state_dict(20, True) | {"epoch": 0}
    dataset = StreamingDataset(remote=urls[0], batch_size=4, shuffle=True)
    dataset.load_state_dict({key: state[key] for key in state if key != "mdstorm"})
    dataset.shuffle_seed = 6
    rest = [s["number"] for s in dataset]
    assert rest == [s["number"] for s in first][20:]
    assert (dataset.shuffle_seed, dataset.initial_physical_nodes) == (5, 1)
    dataset.shuffle_seed = 6
    expected = StreamingDataset(remote=urls[0], batch_size=4, shuffle=True, shuffle_seed=6)
    expected.next_epoch = 1
    assert [s["number"] for s in dataset] == [s["number"] for s in expected]


def test_copied_dataset_has_separate_settings(urls: list[str]) -> None:
    dataset = dataset_of(urls)
    other = copy(dataset)
    other.shuffle = False
    assert (dataset.shuffle, other.shuffle) == (True, False)
    assert [s["number"] for s in dataset] == [s["number"] for s in dataset_of(urls)]
    expected = dataset_of(urls, shuffle=False)
    assert [s["number"] for s in other] == [s["number"] for s in expected]
    assert dataset.next_epoch == other.next_epoch == 2


def test_dataset_streams_can_be_replaced(urls: list[str]) -> None:
    dataset = StreamingDataset(remote=urls[0], batch_size=4)
    assert (len(dataset), dataset.num_streams) == (60, 1)
    dataset.streams = [Stream(remote=url) for url in urls]
    assert (len(dataset), dataset.size, dataset.num_streams) == (100, 100, 2)
    assert len([*dataset]) == 100


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("shuffle_seed", -1, InvalidArgumentError),
        ("shuffle_algo", "py9", InvalidArgumentError),
        ("batch_size", 0, InvalidArgumentError),
        ("num_canonical_nodes", "2", ArgumentTypeError),
        ("predownload", -1, InvalidArgumentError),
    ],
)
def test_invalid_setting_raises_same_error_as_constructor(
    urls: list[str], name: str, value: Any, error: type[Exception]
) -> None:
    dataset = dataset_of(urls)
    before = getattr(dataset, name)
    with pytest.raises(error, match=name):
        setattr(dataset, name, value)
    assert getattr(dataset, name) == before
    assert len([*dataset]) == 100


def test_setting_shuffle_in_exact_order_raises_error(urls: list[str]) -> None:
    dataset = StreamingDataset(remote=urls[0], order=ExactOrder(seed=1))
    with pytest.raises(InvalidArgumentError, match="shuffle would have no effect"):
        dataset.shuffle = True
    dataset.predownload = 7
    assert dataset.predownload == 7


def test_predownload_below_batch_size_warns(urls: list[str]) -> None:
    with pytest.warns(UserWarning, match=r"predownload < batch_size \(3 < 4\)"):
        StreamingDataset(remote=urls[0], batch_size=4, predownload=3)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"workers": -1}, InvalidArgumentError, "workers must be at least 0, found -1"),
        ({"workers": 2.5}, ArgumentTypeError, r"workers must be an integer, found 2\.5"),
        ({"prefetch": True}, ArgumentTypeError, "prefetch must be an integer, found True"),
        ({"prefetch": None}, ArgumentTypeError, "prefetch must be an integer, found None"),
        ({"predownload": "x"}, ArgumentTypeError, "predownload must be an integer, found 'x'"),
        ({"transform": len}, ArgumentTypeError, "transform must .* have an attribute `columns`"),
    ],
)
def test_invalid_dataset_arguments_raise_error_in_the_constructor(
    tmp_path: Path, options: dict[str, Any], error: type[MDStormError], text: str
) -> None:
    write_numbers(tmp_path, 10)
    with pytest.raises(error, match=text):
        StreamingDataset(local=str(tmp_path), **options)


@pytest.mark.parametrize("order", [ExactOrder(), ElasticOrder(batch_size=2)])
def test_order_together_with_shuffle_or_epoch_size_raises_error(
    tmp_path: Path, order: ExactOrder | ElasticOrder
) -> None:
    write_numbers(tmp_path, 10)
    with pytest.raises(InvalidArgumentError, match="shuffle, epoch_size would have no effect"):
        StreamingDataset(local=str(tmp_path), order=order, shuffle=True, epoch_size=5)
    assert len(StreamingDataset(local=str(tmp_path), order=order)) == 10


def test_shards_in_the_default_cache_directory_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cached"))
    written = write_numbers(tmp_path / "data", 10, tasks=2, compression="zstd")
    dataset = StreamingDataset(remote=written.url, batch_size=2)
    assert dataset.cache_usage == 0
    assert dataset[0]
    # As if another rank evicted files right after a check that they exist.
    monkeypatch.setattr("os.path.exists", lambda _: True)
    assert dataset.cache_usage == written.index.shards[0].raw_data.bytes


def test_share_given_twice_raises_error(urls: list[str]) -> None:
    order = ExactOrder(rank=1, world_size=2)
    with pytest.raises(InvalidArgumentError, match="the order's own share, rank 1 of 2"):
        StreamingDataset(local=urls[0], batch_size=4, order=order, world=(0, 2))


class Bare(StreamingDataset):
    """A dataset with attributes of its own, whose names are arguments of the constructor."""

    def __init__(self, url: str) -> None:
        self.transform = abs
        super().__init__(remote=url, batch_size=4)
        self.columns = ["number"]


class BareLoader(StreamingDataLoader[Any]):
    def __init__(self, dataset: StreamingDataset) -> None:
        super().__init__(dataset, 4)
        self.device = "tpu"


@pytest.mark.parametrize(
    "name", ["transform", "fill_nulls", "num_epochs", "rows", "where", "columns", "order", "world"]
)
def test_assigning_an_argument_that_is_no_setting_raises_error(urls: list[str], name: str) -> None:
    dataset = dataset_of(urls)
    with pytest.raises(AttributeError, match=f"StreamingDataset.{name} .* pass {name}=… to a new"):
        setattr(dataset, name, None)
    assert not hasattr(dataset, name)
    assert not hasattr(copy(dataset), name)


@pytest.mark.parametrize("name", ["batch_map", "device"])
def test_assigning_an_argument_of_a_loader_raises_error(urls: list[str], name: str) -> None:
    loader: Any = StreamingDataLoader(dataset_of(urls), 4)
    with pytest.raises(AttributeError, match=f"StreamingDataLoader.{name} .* pass {name}=… to a"):
        setattr(loader, name, None)
    assert not hasattr(loader, name)


def test_defaults_are_those_of_the_dataclasses_that_the_arguments_are_passed_to() -> None:
    defaults = {name: one.default for name, one in declared(StreamingDataset.__init__).items()}
    for kind in (StreamDefaults, ElasticOrder, ReaderOptions, Steps):
        defaults |= {one.name: one.default for one in fields(kind)}
    for name in ("streams", "order", "batch_size", "world"):  # mean something else there
        del defaults[name]
    parameters = inspect.signature(StreamingDataset).parameters
    found = {name: one.default for name, one in parameters.items() if name in defaults}
    assert found == {name: defaults[name] for name in found}
    assert len(found) > 25


def test_pickling_a_dataset_with_credentials_raises_error() -> None:
    options, order = {"secret": "hidden"}, ExactOrder()  # with an order, nothing is opened
    dataset = StreamingDataset(remote="s3://bucket/data", storage_options=options, order=order)
    with pytest.raises(InvalidArgumentError, match=r"contain \['secret'\]") as caught:
        pickle.dumps(dataset)
    assert "hidden" not in str(caught.value)


def test_docstring_describes_each_argument_once() -> None:
    described, _, _ = (inspect.getdoc(StreamingDataset) or "").partition("\n\nAttributes\n")
    entries = re.findall(r"^\w[\w, \n]+?(?= :|\n {4})", described, re.MULTILINE)
    names = Counter(name for entry in entries for name in re.split(r",\s+", entry))
    for name in inspect.signature(StreamingDataset).parameters:
        assert names[name] == 1, name


def test_subclasses_may_assign_attributes_with_the_names_of_arguments(urls: list[str]) -> None:
    dataset = Bare(urls[0])
    loader = BareLoader(dataset)
    assert (dataset.transform, dataset.columns, loader.device) == (abs, ["number"], "tpu")
    assert len(column(loader)) == 15
    assert deepcopy(dataset).columns == ["number"]


def mark_worker(number: int) -> None:
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.mark = number


def test_worker_options_assigned_to_a_loader_apply_to_the_next_pass(urls: list[str]) -> None:
    def marked(batch: Any) -> Any:
        info: Any = torch.utils.data.get_worker_info()
        return getattr(info.dataset, "mark", "none")

    loader = StreamingDataLoader(
        dataset_of(urls), 4, num_workers=2, batch_map=marked, multiprocessing_context="fork"
    )
    assert set(loader) == {"none"}
    loader.worker_init_fn = mark_worker
    assert set(loader) == {0, 1}
    loader.num_workers, loader.worker_init_fn = 1, None
    assert set(loader) == {"none"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num_worker", "did you mean num_workers"),
        ("batchmap", "did you mean batch_map"),
        ("collate", "did you mean collate_fn"),
        ("columns", r"nearest .* collate_fn.*help\(StreamingDataLoader\)"),
    ],
)
def test_unknown_loader_argument_names_the_most_similar_one(
    urls: list[str], name: str, text: str
) -> None:
    options: dict[str, Any] = {name: 3}
    with pytest.raises(ArgumentTypeError, match=rf"StreamingDataLoader\(\) got .*{name}'.*{text}"):
        StreamingDataLoader(dataset_of(urls), 4, **options)
