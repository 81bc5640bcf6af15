"""NumPy's scalars act like Python's as arguments, and errors about wrong values name both.

The functions' signatures list the arguments. What each one must refuse follows from a table of the
lowest values of integers, and from defaults: a flag refuses text, and everything an object without
a meaning.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, signature
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.readers import write_parquet
from tests.kit.small_datasets import write_numbers

from mdstorm import TransformSpec, convert, make_batch_reader, make_reader, open_dataset
from mdstorm.errors import MDStormError
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.reader import Reader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import (
    Dataset,
    ElasticOrder,
    ExactOrder,
    MDSWriter,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
)
from mdstorm_backend.base import cached_property
from mdstorm_backend.loaders import Trace

ROWS, SIZE, MOST = 150, 20, 40
#: The lowest values of integer arguments; None if they have no bound.
LOWEST: dict[str, int | None] = {
    **dict.fromkeys(["batch_size", "num_epochs", "num_canonical_nodes", "sampling_granularity"], 1),
    **dict.fromkeys(["replication", "shuffle_block_size", "workers_count"], 1),
    **dict.fromkeys(["epoch_size"], 0),
    **dict.fromkeys(["results_queue_size", "shuffle_row_drop_partitions", "world_size"], 1),
    **dict.fromkeys(["max_image_bytes", "max_file_bytes", "download_retry", "size_limit"], 1),
    **dict.fromkeys(["shard_count", "max_workers"], 1),
    **dict.fromkeys(["shard_size", "choose"], 0),
    **dict.fromkeys(["seed", "shard_seed", "shuffle_seed", "workers", "prefetch", "retry"], 0),
    **dict.fromkeys(
        ["predownload", "rank", "cur_shard", "padded_to", "window", "queue", "rule"], 0
    ),
    **dict.fromkeys(["epoch", "skip_batches", "num_samples", "batches", "batch", "row"], 0),
    "shuffling_queue_capacity": None,
}
#: Petastorm's arguments that have no effect, or none without a cache or files.
IGNORED = {
    *("hdfs_driver", "zmq_copy_buffers", "convert_early_to_numpy", "pyarrow_serialize"),
    *("cache_location", "cache_size_limit", "cache_row_size_estimate", "files_below"),
}
#: What messages call arguments, if not by their names.
CALLED = {
    "schema_fields": "Fields",
    "cache_limit": "cache limit",
    "validate_hash": "hash",
    "shard_size": "shard size",
}
#: Values with an effect. Products with the number of rows do not fit into 8 bits.
VALUES: dict[str, Any] = {
    **{"cur_shard": 1, "shard_count": 2, "rank": 1, "world_size": 2, "num_epochs": 3},
    **{"order": "exact", "reader_pool_type": "dummy", "on_corrupt": "skip", "row_numbers": "n"},
    **{"decimals": "float64", "dtype": "float32", "download_timeout": 3.0, "shuffle_algo": "py1s"},
    **{"batching_method": "stratified", "sampling_method": "fixed", "partition_algo": "orig"},
    **{"workers_count": 2, "workers": 2, "replication": 1, "download_retry": 2, "retry": 2},
    **{"max_workers": 2, "epoch_size": 120, "shuffle_row_drop_partitions": 2, "epoch": 100},
    **{"skip_batches": 3, "batches": 3, "num_samples": 60, "row": 100, "size_limit": 127},
    **{"num_canonical_nodes": 2, "batch": 3, "rule": 0},
}


class Meaningless:
    def __repr__(self) -> str:
        return "<meaningless>"


@dataclass(frozen=True)
class Data:
    folder: Path

    @cached_property
    def mds(self) -> Dataset:
        return write_numbers(self.folder / "mds", ROWS, tasks=4)

    @cached_property
    def parquet(self) -> str:
        return write_parquet(self.folder / "parquet", {"number": range(ROWS)}, 40)

    def dataset(self, **given: Any) -> StreamingDataset:
        given = {"local": self.mds.url, **given}
        return StreamingDataset(**({} if "order" in given else {"batch_size": SIZE}) | given)

    def loader(self, ranks: int = 1, **given: Any) -> Any:
        order = ExactOrder(3, True, True, world_size=ranks, follows_world=False)
        dataset = self.dataset(order=order, num_epochs=2)
        return StreamingDataLoader(dataset, **{"batch_size": SIZE, **given})

    @cached_property
    def of_tf(self) -> Any:
        """A dataset of TensorFlow after some batches."""
        converter = SparkDatasetConverter(self.mds.url, self.mds.file_urls, ROWS)
        dataset = converter.make_tf_dataset(SIZE, num_epochs=1, seed=1)
        taken(dataset.take(5))
        return dataset

    def state(self) -> Any:
        loader = self.loader()
        list(islice(loader, 2))
        return loader.state_dict()


def taken(items: Any, number: int = MOST) -> list[Any]:
    """Return the numbers in the first items, which are samples, rows or batches."""
    rows = (item if isinstance(item, dict) else item._asdict() for item in islice(items, number))
    return [np.asarray(row["number"]).tolist() for row in rows]


def with_state(loader: Any) -> tuple[list[Any], str]:
    """Return the numbers in a loader's first batches, and its state as JSON."""
    return taken(loader), json.dumps(loader.state_dict())


def read(make: Any, data: Data, **given: Any) -> Any:
    with make(data.parquet, **{"seed": 1, **given}) as reader:
        return with_state(reader)


def over(kind: Any, data: Data, **given: Any) -> Any:
    with kind(make_batch_reader(data.parquet, seed=1), **{"batch_size": SIZE, **given}) as loader:
        return with_state(loader)


def converted(method: str, data: Data, **given: Any) -> Any:
    converter = SparkDatasetConverter(data.mds.url, data.mds.file_urls, ROWS)
    given = {"batch_size": SIZE, "num_epochs": 1, "seed": 1, **given}
    with getattr(converter, method)(**given) as loader:
        return taken(loader)


def written(data: Data, **given: Any) -> Any:
    out = data.folder / f"written {len([*data.folder.iterdir()])}"
    with MDSWriter(**{"out": str(out), "columns": {"number": "int"}, **given}) as writer:
        for number in range(ROWS):
            writer.write({"number": number})
    return sorted((file.name, file.read_bytes()) for file in out.rglob("*") if file.is_file())


def of_stream(data: Data, **given: Any) -> Any:
    streams = [Stream(local=data.mds.url, **given)]
    return taken(StreamingDataset(streams=streams, batch_size=SIZE))


def converted_files(data: Data, **given: Any) -> Any:
    out = data.folder / f"converted {len([*data.folder.iterdir()])}"
    found = convert(data.parquet, str(out), **given)
    return [file.read_bytes() for file in sorted(out.glob("*.mds*"))], found.shard_sizes


def loads(loader: Any, data: Data, **given: Any) -> Any:
    loader.load_state_dict(**{"state": data.state(), **given})
    return with_state(loader)


def sets_epoch(loader: Any, **given: Any) -> Any:
    loader.set_epoch(**given)
    return taken(loader), json.dumps(loader.state_dict(*[SIZE] * hasattr(loader, "streams")))


#: Arguments that are one integer or several.
LISTS = {"batch"}


@dataclass(frozen=True)
class Entry:
    """A function with arguments; `call` returns what it does with some of them, given the data."""

    function: Callable[..., Any]
    call: Callable[..., Any]
    left_out: frozenset[str] = frozenset()
    lowest: Mapping[str, int | None] = field(default_factory=dict)

    def parameters(self) -> Iterator[Parameter]:
        unnamed = {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY}
        left_out = self.left_out | IGNORED | {"self", *FIRST}
        for one in signature(self.function).parameters.values():
            if one.name not in left_out and one.kind not in unnamed:
                yield one

    def wrong(self, parameter: Parameter) -> list[Any]:
        """Return values that the function must refuse."""
        if parameter.name not in LOWEST:
            return ["False"] if isinstance(parameter.default, bool) else [Meaningless()]
        lowest = {**LOWEST, **self.lowest}[parameter.name]
        below = [] if lowest is None else [lowest - 1, np.int8(lowest - 1), -(1 << 64)]
        empty: list[Any] = [] if parameter.name in LISTS else [[]]
        return [Meaningless(), "x", 1.5, np.float32(1.5), float("nan"), b"1", *empty, *below]


#: Arguments that say what is read, and some whose values have other rules.
FIRST = {
    *("dataset_url", "dataset_url_or_urls", "reader", "dataset", "local", "remote", "split"),
    *("out", "state", "obj", "streams", "stream_name", "source", "url", "df"),
    # Sizes in bytes may be text and fractions. These flags may be None. Only Parquet files have it.
    *("size_limit", "cache_limit", "download_timeout", "follows_world", "filesystem"),
}
#: Integers whose largest value is the memory.
UNBOUNDED = {"num_canonical_nodes", "prefetch"}
#: Arguments of a converter's methods that `make_batch_reader` also has.
OF_READERS = frozenset(signature(make_batch_reader).parameters) - {"num_epochs", "workers_count"}
ENTRIES = {
    "make_reader": Entry(make_reader, partial(read, make_reader)),
    "make_batch_reader": Entry(make_batch_reader, partial(read, make_batch_reader)),
    "make_torch_dataloader": Entry(
        SparkDatasetConverter.make_torch_dataloader,
        partial(converted, "make_torch_dataloader"),
        lowest={"batch_size": None},
    ),
    "make_tf_dataset": Entry(
        SparkDatasetConverter.make_tf_dataset,
        partial(converted, "make_tf_dataset"),
        OF_READERS,
        {"batch_size": None, "prefetch": -1},
    ),
    "StreamingDataset": Entry(
        StreamingDataset.__init__, lambda data, **given: with_length(data.dataset(**given))
    ),
    "StreamingDataLoader": Entry(
        StreamingDataLoader.__init__, lambda data, **given: with_state(data.loader(**given))
    ),
    "DataLoader": Entry(
        DataLoader.__init__, partial(over, DataLoader), lowest={"batch_size": None}
    ),
    "BatchedDataLoader": Entry(BatchedDataLoader.__init__, partial(over, BatchedDataLoader)),
    "ExactOrder": Entry(
        ExactOrder.__init__,
        lambda data, **given: with_length(data.dataset(order=ExactOrder(**given))),
    ),
    "ElasticOrder": Entry(
        ElasticOrder.__init__,
        lambda data, **given: with_length(
            data.dataset(order=ElasticOrder(**{"batch_size": SIZE, **given}))
        ),
        frozenset({"world", "cache", "states_batch_size"}),
    ),
    "MDSWriter": Entry(MDSWriter.__init__, written),
    "Dataset.batches": Entry(
        Dataset.batches, lambda data, **given: taken(data.mds.batches(**{"batch_size": 9, **given}))
    ),
    "set_epoch of loaders": Entry(
        StreamingDataLoader.set_epoch, lambda data, **given: sets_epoch(data.loader(), **given)
    ),
    "set_epoch of datasets": Entry(
        StreamingDataset.set_epoch, lambda data, **given: sets_epoch(data.dataset(), **given)
    ),
    "set_epoch of readers": Entry(
        Reader.set_epoch,
        lambda data, **given: sets_epoch(make_batch_reader(data.parquet, seed=1), **given),
    ),
    "load_state_dict": Entry(
        StreamingDataLoader.load_state_dict,
        lambda data, **given: loads(data.loader(), data, **given),
    ),
    "state_dict of datasets": Entry(
        StreamingDataset.state_dict,
        lambda data, **given: json.dumps(data.dataset().state_dict(**{"num_samples": 9, **given})),
    ),
    "state_dict of TensorFlow datasets": Entry(
        lambda batches=None: None,
        lambda data, **given: json.dumps(data.of_tf.state_dict(**given)),
    ),
    "Trace.rows": Entry(
        Trace.rows,
        lambda data, **given: data.loader(2).trace().rows(**{"batch": 1, **given}).tolist(),
    ),
    "Trace.find": Entry(
        Trace.find,
        lambda data, **given: data.loader().trace().find(**{"rows": [1], **given}).to_pydict(),
    ),
    "Trace.shard_and_row": Entry(
        Trace.shard_and_row, lambda data, **given: data.loader().trace().shard_and_row(**given)
    ),
    "Stream": Entry(Stream.__init__, of_stream, frozenset({"keep_zip"})),
    "convert": Entry(convert, converted_files, frozenset({"spark", "progress", "keep_row_groups"})),
    "open_dataset": Entry(
        open_dataset, lambda data, **given: open_dataset(data.parquet, **given).to_table()
    ),
    "TransformSpec": Entry(
        TransformSpec.__init__, lambda data, **given: repr(vars(TransformSpec(**given)))
    ),
    "Trace.where": Entry(Trace.where, lambda data, **given: data.loader().trace().where(**given)),
}


def with_length(dataset: Any) -> Any:
    loader = StreamingDataLoader(dataset, batch_size=dataset.batch_size or SIZE)
    return len(dataset), with_state(loader)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(tmp_path_factory.mktemp("arguments"))


def shown(value: Any) -> set[str]:
    """Return the forms in which messages show a value."""
    return {repr(value), str(value), f"found {type(value).__name__}"}


def fault(data: Data, entry: Entry, name: str, value: Any, *, is_wrong: bool) -> str:
    """Return how a function handles a value of an argument, unless as it should."""
    try:
        entry.call(data, **{name: value})
    except MDStormError as error:
        text = str(error)
        names = CALLED.get(name, name) in text and any(map(text.__contains__, shown(value)))
        return "" if names or not is_wrong else f"refused with {error!r}"
    except Exception as error:
        return f"another error, {error!r}"
    return "accepted" if is_wrong else ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ENTRIES)
def test_wrong_argument_raises_error_with_its_name_and_value(name: str, data: Data) -> None:
    entry, faults = ENTRIES[name], []
    for parameter in entry.parameters():
        if isinstance(parameter.default, int) and not isinstance(parameter.default, bool):
            assert parameter.name in LOWEST, "add its lowest value"
        large = [1 << 64] if parameter.name in LOWEST.keys() - UNBOUNDED else []
        for value, is_wrong in [
            *((value, True) for value in entry.wrong(parameter)),
            *((value, False) for value in large),
        ]:
            if found := fault(data, entry, parameter.name, value, is_wrong=is_wrong):
                faults.append(f"{parameter.name}={value!r}: {found}")
    assert not faults, "\n".join(faults)


#: Arguments that must be passed together.
PAIRS = ({"cur_shard", "shard_count"}, {"rank", "world_size"})


def scalars(value: Any) -> list[Any]:
    """Return NumPy's scalars that are equal to a value; small integers, whose products overflow."""
    if isinstance(value, bool):
        return [np.bool_(value)]
    if isinstance(value, int):
        return [np.int8(value), np.uint64(value)]
    return [np.float32(value) if isinstance(value, float) else np.str_(value)]


@pytest.mark.filterwarnings("ignore:(?!.*overflow|.*out of bound)")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name == "make_tf_dataset" else ())
        for name in ENTRIES
    ],
)
def test_numpy_scalar_has_the_effect_of_the_equal_python_value(name: str, data: Data) -> None:
    entry = ENTRIES[name]
    values = {}
    for one in entry.parameters():
        if isinstance(one.default, bool) and one.name != "stack":  # which needs features
            values[one.name] = not one.default
        elif one.name in LOWEST or (one.name in VALUES and one.name != "order"):
            values[one.name] = VALUES.get(one.name, SIZE)
    for one in values:
        names = next((pair for pair in PAIRS if one in pair and pair <= {*values}), {one})
        plain = {each: values[each] for each in names}
        expected = entry.call(data, **plain)
        for turn in range(len(scalars(values[one]))):
            given = {each: scalars(value)[turn] for each, value in plain.items()}
            assert entry.call(data, **given) == expected, given
