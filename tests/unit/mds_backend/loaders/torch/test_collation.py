"""Batches of JSON and other objects: like PyTorch's if the objects are alike, and lists if not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import default_collate

from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders.torch.collation import are_alike, collate_objects, collate_samples

ROWS = 4


class OwnItems(StreamingDataset):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(at)


class Pairs(StreamingDataset):
    def __getitem__(self, at: Any) -> Any:
        return tuple(super().__getitem__(at).values())


class Bare(StreamingDataset):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(at)["j"]


class OwnIteration(StreamingDataset):
    def __iter__(self) -> Any:
        yield from super().__iter__()


def identity(batch: Any) -> Any:
    return batch


def plain(batch: Any) -> Any:
    """Return a batch with tensors as lists, to compare it."""
    if isinstance(batch, torch.Tensor):
        return {str(batch.dtype): batch.tolist()}
    if isinstance(batch, Mapping):
        return {key: plain(value) for key, value in batch.items()}
    return [plain(value) for value in batch] if isinstance(batch, (list, tuple)) else batch


def written(directory: Path, values: list[Any], encoding: str = "json") -> str:
    with MDSWriter(columns={"j": encoding, "n": "int"}, out=str(directory)) as writer:
        for number, value in enumerate(values):
            writer.write({"j": value, "n": number})
    return str(directory)


UNLIKE = {
    "keys": [{"a": 1}, {"a": 2, "b": 3}, {}, {"a": 5}],
    "keys of nested objects": [
        {"a": {"b": 1}},
        {"a": {"b": 1, "c": 2}},
        {"a": {}},
        {"a": {"d": 1}},
    ],
    "keys in lists": [[{"a": 1}], [{"a": 2, "b": 3}], [{}], [{"a": 5}]],
    "lengths": [{"a": [1]}, {"a": [1, 2]}, {"a": []}, {"a": [3]}],
    "integers and floats": [{"a": 1}, {"a": 2.5}, {"a": 3}, {"a": 0.1}],
    "floats and integers": [{"a": 2.5}, {"a": (1 << 53) + 1}, {"a": 0.5}, {"a": (1 << 53) + 1}],
    "booleans and integers": [{"a": True}, {"a": 2}, {"a": False}, {"a": 3}],
    "text and numbers": [{"a": "1"}, {"a": 2}, {"a": "3"}, {"a": 4}],
    "text and objects": ["a", {"a": 1}, "b", {"a": 1}],
    "numbers and lists": [1, [1], 2, [2]],
    "numbers": [1, 2.5, 3, 0.1],
    "nulls": [{"a": 1}, {"a": None}, {"a": 2}, {"a": None}],
    "objects and lists": [{}, [], {}, []],
}
LOADERS = [
    pytest.param(StreamingDataset, {}, id="columns"),
    pytest.param(OwnItems, {}, id="samples"),
    pytest.param(OwnIteration, {}, id="own iteration"),
    pytest.param(OwnIteration, {"batch_map": identity}, id="mapped"),
    pytest.param(StreamingDataset, {"num_workers": 2}, id="workers"),
    pytest.param(OwnItems, {"num_workers": 2}, id="samples in workers"),
]


@pytest.mark.parametrize(("kind", "options"), LOADERS)
def test_objects_that_differ_remain_lists(
    tmp_path: Path, kind: type[StreamingDataset], options: dict[str, Any]
) -> None:
    nested = {name: v for name, v in UNLIKE.items() if isinstance(v[0], (dict, list))}
    with MDSWriter(columns=dict.fromkeys(nested, "json"), out=str(tmp_path)) as writer:
        for row in zip(*nested.values(), strict=True):
            writer.write(dict(zip(nested, row, strict=True)))
    dataset = kind(local=str(tmp_path), batch_size=2)
    batches = list(StreamingDataLoader(dataset, batch_size=2, **options))
    assert [plain(batch) for batch in batches] == [
        {name: values[start : start + 2] for name, values in nested.items()} for start in (0, 2)
    ]


@pytest.mark.parametrize("values", UNLIKE.values(), ids=UNLIKE)
def test_values_that_differ_are_not_alike(values: list[Any]) -> None:
    assert not are_alike(values)
    assert collate_objects(values) == values


def test_samples_that_are_tuples_keep_objects_that_differ(tmp_path: Path) -> None:
    url = written(tmp_path, UNLIKE["keys"])
    first, _ = StreamingDataLoader(Pairs(local=url, batch_size=2), batch_size=2)
    assert first[0] == UNLIKE["keys"][:2]
    assert first[1].tolist() == [0, 1]


def test_samples_with_different_keys_remain_a_list(tmp_path: Path) -> None:
    url = written(tmp_path, UNLIKE["keys"])
    batches = list(StreamingDataLoader(Bare(local=url, batch_size=2), batch_size=2))
    assert batches == [UNLIKE["keys"][:2], UNLIKE["keys"][2:]]


@pytest.mark.parametrize("kind", [StreamingDataset, OwnItems])
@pytest.mark.parametrize(
    "values",
    [
        [{"a": np.zeros(2)}, {"a": np.zeros(3)}],
        [{"a": np.zeros(2)}, {"a": np.zeros(2, np.int8)}],
        [{"a": np.float32(1)}, {"a": np.float64(1)}],
        [(1, 2), [1, 2]],
    ],
    ids=["shapes", "dtypes", "scalars", "types"],
)
def test_pickled_objects_that_differ_remain_a_list(
    tmp_path: Path, kind: type[StreamingDataset], values: list[Any]
) -> None:
    url = written(tmp_path, values, "pkl")
    dataset = kind(local=url, batch_size=2, allow_unsafe_types=True)
    (batch,) = StreamingDataLoader(dataset, batch_size=2)
    assert isinstance(batch["j"], list)
    assert repr(batch["j"]) == repr(values)


leaves = st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.booleans(), st.text(max_size=2))
json_values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=6,
)


def structure(value: Any) -> Any:
    """Return a value with its scalars replaced by their types."""
    if isinstance(value, dict):
        return {key: structure(each) for key, each in value.items()}
    return [structure(each) for each in value] if isinstance(value, list) else type(value)


@given(st.lists(json_values, min_size=1, max_size=3))
def test_objects_are_collated_by_pytorch_if_alike_and_otherwise_kept(values: list[Any]) -> None:
    structures = [structure(value) for value in values]
    is_alike = all(each == structures[0] for each in structures)
    assert are_alike(values) == is_alike
    expected = default_collate(values) if is_alike else values
    assert json.dumps(plain(collate_objects(values))) == json.dumps(plain(expected))


@given(json_values, st.integers(1, 3))
def test_samples_that_are_alike_are_collated_by_pytorch(value: Any, rows: int) -> None:
    for sample in ({"j": value, "n": 1}, (value, 1), [value, 1], value):
        samples = [sample] * rows
        found, expected = collate_samples(samples), default_collate(samples)
        assert (type(found), plain(found)) == (type(expected), plain(expected))
