"""Single samples: the same as in the blocks that iterating reads."""

import copy
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.small_datasets import array_of, write_dataset

from mdstorm_backend import MDSWriter, StreamingDataset, merge_index
from mdstorm_backend.loaders.torch.samples import SampleMaker

COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "bool": ("boolean", [True, None, False]),
    "byte": ("byte", [None, -7, 7]),
    "long": ("long", [1 << 50, None, -3]),
    "float": ("float", [0.1, None, float("nan")]),
    "double": ("double", [None, 0.1, 2.5]),
    "text": ("string", ["x", None, ""]),
    "bytes": ("binary", [None, b"\0x", b""]),
    "date": ("date", [date(2020, 2, 3), None, date(1969, 1, 1)]),
    "time": ("timestamp", [datetime(2024, 5, 6, 7, tzinfo=timezone.utc)] * 3),
    "list": (array_of("integer"), [[1, 2], None, []]),
    "full": ("integer", [1, 2, 3]),
}
SIMPLE = ["bool", "byte", "long", "float", "double", "text", "bytes", "full"]


@pytest.fixture(scope="module")
def with_nulls(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("nulls")
    columns = {name: values for name, (_, values) in COLUMNS.items()}
    write_dataset(directory, columns, {name: type_ for name, (type_, _) in COLUMNS.items()})
    return str(directory)


def shown(sample: dict[str, Any]) -> list[tuple[str, type, str]]:
    """Names, types and values, NaN among them."""
    return [(name, type(value), repr(value)) for name, value in sample.items()]


def test_a_dataset_that_has_made_a_sample_can_be_copied(with_nulls: str) -> None:
    dataset = StreamingDataset(local=with_nulls, batch_size=1, fill_nulls={"text": "?"})
    assert dataset[1]["text"] == "?"
    assert copy.deepcopy(dataset)[1]["text"] == "?"


@pytest.mark.parametrize(
    ("names", "nulls"),
    [
        *((names, {}) for names in (SIMPLE, [*SIMPLE, "date"], ["list"], list(COLUMNS))),
        (list(COLUMNS), {"fill_nulls": {"long": 7}, "null_masks": ["bool"]}),
    ],
)
def test_samples_with_nulls_are_those_of_blocks(
    with_nulls: str, names: list[str], nulls: dict[str, Any]
) -> None:
    dataset = StreamingDataset(local=with_nulls, columns=names, **nulls)
    iterated = [shown(sample) for sample in dataset]
    assert [shown(dataset[i]) for i in (0, 1, -1)] == iterated
    assert {len(sample) for sample in iterated} == {len(names) + bool(nulls)}
    with pytest.raises(IndexError, match="sample 3 of 3"):
        dataset[3]


@pytest.mark.parametrize("stated", [True, False])
def test_numbers_are_cut_out_of_whole_columns_and_stay_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
) -> None:
    types = ["boolean", "byte", "short", "integer", "long", "float", "double"]
    columns = {type_: [True] * 3 if type_ == "boolean" else [0, 1, 2] for type_ in reversed(types)}
    if stated:
        write_dataset(tmp_path / "data", columns, {type_: type_ for type_ in columns})
    else:
        kinds = {"b": "uint8", "a": "int16", "d": "float16", "c": "uint64"}
        with MDSWriter(out=str(tmp_path / "data"), columns=kinds) as writer:
            for n in range(3):
                writer.write({name: np.dtype(kind).type(n) for name, kind in kinds.items()})
    dataset = StreamingDataset(local=str(tmp_path / "data"))
    by_number = [shown(dataset[i]) for i in range(3)]
    monkeypatch.setattr(SampleMaker, "__call__", None)
    assert [shown(sample) for sample in dataset] == by_number


def test_shards_of_several_types_keep_theirs(tmp_path: Path) -> None:
    for part, kind in enumerate(["int16", "int64"]):
        with MDSWriter(out=str(tmp_path / str(part)), columns={"n": kind}) as writer:
            writer.write({"n": np.dtype(kind).type(part)})
    merge_index(str(tmp_path))
    dataset = StreamingDataset(local=str(tmp_path))
    assert [shown(s) for s in dataset] == [shown(dataset[i]) for i in range(2)]
    assert [type(sample["n"]) for sample in dataset] == [np.int16, np.int64]
