"""Whatever readers read can be opened, and has the rows that other libraries read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.unit.compat.inputs.inputs import INPUTS, MORE, Input, Place, sorted_rows
from tests.unit.mds_backend.storage.conftest import (  # noqa: F401
    default_cache,
    fresh_filesystems,
    no_credentials,
    s3,
    started_s3,
)

from mdstorm import open_dataset
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.datasets import SampleDataset


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(tmp_path, str(tmp_path))


@pytest.fixture
def stored(s3: S3Server, fresh_filesystems: None, tmp_path: Path) -> Place:  # noqa: F811
    keys = {
        **{"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"},
        **{"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret"},
    }
    of_pyiceberg = {
        **{"s3.endpoint": s3.url, "s3.region": "us-east-1"},
        **{"s3.access-key-id": "testing", "s3.secret-access-key": "testing-secret"},
    }
    return Place(tmp_path, f"s3://{BUCKET}/inputs/{tmp_path.name}", {**keys, **of_pyiceberg})


def check(dataset: SampleDataset, expected: Input) -> None:
    """Check all that a dataset can do against the expected rows."""
    if "id" in dataset.schema.names:
        dataset_rows = dataset.to_table()
        names = ["n" if name == "id" else name for name in dataset_rows.column_names]
        shown = dataset_rows.rename_columns(names)
        assert [row["n"] for row in sorted_rows(shown)] == [
            row["n"] for row in sorted_rows(expected.rows)
        ]
        return
    table = dataset.to_table()
    assert sorted_rows(table) == sorted_rows(expected.rows)
    numbers = table["n"].to_pylist()
    assert len(dataset) == len(numbers)
    assert [row["n"] for row in dataset] == numbers
    assert [row["n"] for row in dataset[1:4]] == numbers[1:4]
    assert [row["text"] for row in dataset[[2, 0]]] == table["text"].take([2, 0]).to_pylist()
    assert dataset[-1]["n"] == numbers[-1]
    found = dataset.numbers([("n", ">", 3)])
    assert found.tolist() == [i for i, n in enumerate(numbers) if n > 3]
    assert (
        dataset.to_table(["n"], rows=found[::-1])["n"].to_pylist()
        == table["n"].take(found[::-1]).to_pylist()
    )
    assert [n for batch in dataset.batches(2) for n in batch["n"].tolist()] == numbers
    assert dataset.content_identity()
    assert f"{len(dataset)} rows" in repr(dataset)
    assert "text" in dataset._repr_html_()
    if expected.is_secret:
        with pytest.raises(InvalidArgumentError, match="would be pickled"):
            pickle.dumps(dataset)
        return
    copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301 - our own bytes
    assert copy[1]["n"] == numbers[1]


@pytest.mark.parametrize("make", [*INPUTS.values(), *MORE.values()], ids=[*INPUTS, *MORE])
def test_open_dataset_has_the_rows_that_other_libraries_read(
    make: Callable[[Place], Input], local: Place
) -> None:
    given = make(local)
    check(open_dataset(given.source, **given.keywords), given)


#: In the gate, each format and form of URL is read from a store once.
IN_STORE = {
    *("a list of its shards", "a dataset of Petastorm", "a folder with Hive partitions"),
    *("a pattern of Parquet files", "a Delta table", "an Iceberg table and a branch"),
    *("an MDS dataset at a URL with %20", "a converter over Delta"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_STORE else pytest.mark.long)
        for name in (*INPUTS, *MORE)
    ],
)
def test_open_dataset_has_the_same_rows_in_a_store(name: str, stored: Place) -> None:
    given = {**INPUTS, **MORE}[name](stored)
    check(open_dataset(given.source, **given.keywords), given)
