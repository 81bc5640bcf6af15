"""A state continues over a copy of its data, whatever the times of its files, and no other data."""

from __future__ import annotations

import os
import shutil
import warnings
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.compat.inputs import inputs
from tests.unit.compat.inputs.inputs import GOLDEN, INPUTS, Input, Place, numbers

from mdstorm import make_batch_reader, open_dataset
from mdstorm.errors import StateMismatchError
from mdstorm.pytorch import BatchedDataLoader
from mdstorm_backend.datasets import SampleDataset

#: In nanoseconds since 1970.
_OLD, _BETWEEN_FILES = 10**18 + 123_456_789, 10**10


def loader(given: Input) -> BatchedDataLoader:
    """Return a loader over an input, with two rows in a batch."""
    source = given.source
    if isinstance(source, str):
        source = f"file://{source}"
    elif isinstance(source, list):
        source = [f"file://{one}" for one in source]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about datasets of Petastorm
        reader = make_batch_reader(
            source, schema_fields=["n", "id"], shuffle_rows=True, seed=3, **given.keywords
        )
    return BatchedDataLoader(reader, batch_size=2)


def rows(batches: BatchedDataLoader) -> list[int]:
    found = (value.tolist() for batch in batches for value in batch.values())
    return list(chain.from_iterable(found))


def replace_by_copy(folder: Path) -> None:
    """Replace a folder by a copy of it in which each file has another time."""
    former = folder.with_name("former")
    folder.rename(former)
    shutil.copytree(former, folder)
    shutil.rmtree(former)
    for number, path in enumerate(sorted(folder.rglob("*"))):
        os.utime(path, ns=(_OLD, _OLD + number * _BETWEEN_FILES))


def copies(given: Input, here: Path, there: Path) -> list[Input]:
    """Return an input whose files were replaced, and the same at another path, if it is a path."""
    source, rows, version = given.source, given.rows, given.version
    if isinstance(source, SampleDataset):
        return [Input(open_dataset(source.url), rows)]
    if isinstance(source, list):
        return [given, Input([one.replace(str(here), str(there)) for one in source], rows)]
    if isinstance(source, str):
        return [given, Input(source.replace(str(here), str(there)), rows, version)]
    return [given]


def change_one_row(patched: pytest.MonkeyPatch, golden: Path) -> None:
    """Let inputs be made with a longer text in a row, or without a row that Petastorm wrote."""

    def changed(*given: int) -> pa.Table:
        made = numbers(*given)
        first, *others = made["text"].to_pylist()
        return made.set_column(1, "text", pa.array([f"{first}, changed", *others]))

    shutil.copytree(GOLDEN / "partitioned", golden / "partitioned")
    file, *_ = sorted(golden.rglob("*.parquet"))
    written = pq.ParquetFile(file).read()
    pq.write_table(written.slice(1), file)
    patched.setattr(inputs, "numbers", changed)
    patched.setattr(inputs, "GOLDEN", golden)


@pytest.mark.newest
@pytest.mark.parametrize("name", INPUTS)
def test_state_continues_over_copies_and_is_refused_if_one_row_differs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    given = INPUTS[name](Place(here, str(here)))
    batches = iter(first := loader(given))
    next(batches)
    state = first.state_dict()
    rest = rows(batches)
    assert len(rest) == len(given.rows) - 2

    shutil.copytree(here, there)
    replace_by_copy(here)
    for copy in copies(given, here, there):
        again = loader(copy)
        again.load_state_dict(state)
        assert rows(again) == rest

    shutil.rmtree(here)
    here.mkdir()
    change_one_row(monkeypatch, tmp_path / "golden")
    other = loader(INPUTS[name](Place(here, str(here))))
    with pytest.raises(StateMismatchError):
        other.load_state_dict(state)
