"""Each argument of `StreamingDataset`: whether a state loads into a dataset with another value."""

import inspect
from io import BytesIO
from itertools import chain, islice
from typing import Any

import pytest
from PIL import Image
from tests.kit.loaders import Same, column, in_either_order

from mdstorm_backend import (
    ExactOrder,
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
)
from mdstorm_backend.errors import StateMismatchError

#: Another value of each argument. Arguments that it needs follow.
VALUES: dict[str, dict[str, Any]] = {
    "download_retry": {"download_retry": 3},
    "download_timeout": {"download_timeout": 61},
    "validate_hash": {"validate_hash": "sha1"},
    "keep_zip": {"keep_zip": True},
    "epoch_size": {"epoch_size": 48},
    "predownload": {"predownload": 64},
    "cache_limit": {"cache_limit": 1 << 20},
    "sampling_method": {"sampling_method": "fixed"},
    "sampling_granularity": {"sampling_granularity": 2},
    "partition_algo": {"partition_algo": "orig"},
    "num_canonical_nodes": {"num_canonical_nodes": 2},
    "batch_size": {"batch_size": 5},
    "shuffle": {"shuffle": False},
    "shuffle_algo": {"shuffle_algo": "py1s"},
    "shuffle_seed": {"shuffle_seed": 8},
    "shuffle_block_size": {"shuffle_block_size": 50},
    "batching_method": {"batching_method": "stratified"},
    "allow_unsafe_types": {"allow_unsafe_types": True},
    "replication": {"replication": 2, "world": (1, 2)},
    "columns": {"columns": ["number"]},
    "num_epochs": {"num_epochs": 2},
    "transform": {"transform": Same()},
    "decode": {"decode": "image"},
    "size": {"decode": "image", "size": 2},
    "max_image_bytes": {"max_image_bytes": 1 << 20},
    "fill_nulls": {"fill_nulls": {"number": 0}},
    "null_masks": {"null_masks": ["number"]},
    "check_ranks": {"check_ranks": False},
    "on_corrupt": {"on_corrupt": "skip"},
    "workers": {"workers": 1},
    "prefetch": {"prefetch": 1},
    "storage_options": {"storage_options": {}},
    "world": {"world": (0, 1)},
    "rows": {"rows": range(60)},
    "where": {"where": [("number", ">=", 0)]},
    "row_numbers": {"row_numbers": "row"},
    "files": {"files": {"content": "path"}},
    "files_below": {"files": {"content": "path"}, "files_below": ["file:///tmp"]},
    "max_file_bytes": {"files": {"content": "path"}, "max_file_bytes": 1 << 20},
}
#: The arguments that name the data, the order, and other kinds of streams. Weights and classes
#: choose an order.
WITHOUT_ROW = {
    *("streams", "remote", "local", "split", "stream_name", "stream_config"),
    *("order", "weights", "balance"),
}
#: The arguments of the elastic order, which the exact one does not take.
ELASTIC = {
    *("epoch_size", "sampling_method", "sampling_granularity", "partition_algo", "replication"),
    *("num_canonical_nodes", "shuffle_algo", "shuffle_seed", "shuffle_block_size"),
    *("batching_method", "shuffle"),
}
#: The arguments that change the rows or samples of an epoch. In the elastic order, canonical nodes
#: and seed are the state's, and a state has none of a loader's arguments, as in MosaicML Streaming.
REFUSED = {
    "elastic": {
        *("epoch_size", "sampling_method", "sampling_granularity", "partition_algo", "shuffle"),
        *("shuffle_algo", "shuffle_block_size", "batching_method", "rows", "where"),
    },
    "exact": {"columns", "num_epochs", "transform", "rows", "where"},
}
NAMES = {"elastic": [*VALUES], "exact": [name for name in VALUES if name not in ELASTIC]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of numbers and images in several shards."""
    image = BytesIO()
    Image.new("RGB", (3, 2)).save(image, "png")
    out = str(tmp_path_factory.mktemp("images") / "data")
    columns = {"number": "int64", "image": "bytes", "path": "str"}
    with MDSWriter(out=out, columns=columns, size_limit=2000, hashes=["sha1"]) as writer:
        for number in range(60):
            sample = {"number": number, "image": image.getvalue(), "path": "index.json"}
            writer.write(sample)
    return out


def loader_of(url: str, order: str, **changes: Any) -> StreamingDataLoader[Any]:
    usual: dict[str, Any] = {"shuffle": True, "shuffle_seed": 3, "batch_size": 4}
    if order == "exact":
        usual = {"order": ExactOrder(3, shuffle_shards=True, shuffle_rows=True)}
    dataset = StreamingDataset(local=url, **{**usual, **changes})
    return StreamingDataLoader(dataset, changes.get("batch_size", 4))


@in_either_order
def test_state_loads_unless_an_argument_changes_the_samples(order: str, url: str) -> None:
    loader = loader_of(url, order)
    batches = iter(loader)
    assert len(list(islice(batches, 4))) == 4
    state = loader.state_dict()
    remaining = list(chain(*column(batches)))
    assert len(remaining) == 44
    refused = set()
    for name in NAMES[order]:
        other = loader_of(url, order, **VALUES[name])
        try:
            other.load_state_dict(state)
        except StateMismatchError:
            refused.add(name)
        else:
            resumed = list(chain(*column(other)))
            assert resumed[:44] == remaining, name
            assert len(resumed) == (104 if name == "num_epochs" else 44), name
    assert refused == REFUSED[order]


def test_each_argument_of_datasets_has_a_row() -> None:
    assert VALUES.keys() == {*inspect.signature(StreamingDataset).parameters} - WITHOUT_ROW
