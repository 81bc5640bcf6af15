"""``row_numbers=`` of a `StreamingDataset`: numbers over all streams, in samples and batches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import ExactOrder, MDSWriter, Stream, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError

ROWS = 90


@pytest.fixture(scope="module")
def locals_(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two datasets of numbers, which are read one after another."""
    found = []
    for start, stop in ((0, 50), (50, ROWS)):
        path = tmp_path_factory.mktemp("stream") / "data"
        columns = {"number": range(start, stop), "text": list(map(str, range(start, stop)))}
        write_dataset(path, columns, {"number": "long", "text": "string"}, shard_size=1_200)
        found.append(str(path))
    return found


CHOICES: list[dict[str, Any]] = [
    {},
    {"shuffle": True},
    {"order": ExactOrder(3, True, True)},
    {"order": ExactOrder(3, window=40), "rows": slice(10, 80, 3)},
    {"rows": [70, 5, 70]},
    {"shuffle": True, "where": [("number", ">", 60)]},
    {"columns": ["number"], "order": ExactOrder(3, shuffle_rows=True)},
]


@pytest.mark.matrix
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_numbers_count_the_rows_of_all_streams(
    locals_: list[str], choice: dict[str, Any], workers: int
) -> None:
    streams = [Stream(local=local) for local in locals_]
    dataset = StreamingDataset(streams=streams, batch_size=7, row_numbers="row", **choice)
    fork = {"multiprocessing_context": "fork"} if workers else {}
    loader = StreamingDataLoader(dataset, batch_size=7, num_workers=workers, **fork)
    trace, batches = loader.trace(), [*loader]
    assert all((batch["row"] == batch["number"]).all() for batch in batches)
    rows = [number for batch in batches for number in batch["row"].tolist()]
    assert trace.rows(slice(None)).tolist() == rows
    assert sorted(trace.find(np.unique(rows))["row"].to_pylist()) == sorted(rows)
    assert all(sample["row"] == sample["number"] for sample in dataset)
    assert dataset[2]["row"] == dataset[2]["number"]


def test_numbers_and_ints_of_a_sample_are_of_one_type(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path), columns={"number": "int"}) as writer:
        writer.write({"number": 0})
    dataset = StreamingDataset(local=str(tmp_path), batch_size=1, row_numbers="row")
    for sample in (dataset[0], next(iter(dataset))):
        assert {type(value) for value in sample.values()} == {int}


def test_name_of_a_column_raises_error(locals_: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match="row_numbers adds a column 'text', but"):
        StreamingDataset(local=locals_[0], row_numbers="text")
