"""Folders of Parquet files whose newer files have other columns: only what is read is compared."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mdstorm import convert, errors, make_batch_reader, make_reader, open_dataset
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.predicates import in_set
from mdstorm.pytorch import BatchedDataLoader
from mdstorm.spark import make_spark_converter
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend.errors import UnsupportedTableError

FIRST = {"id": [1, 2], "a": [1, 2]}
#: What a newer file has.
NEWER: dict[str, dict[str, Any]] = {
    "one more": {"id": [3, 4], "a": [1, 2], "z": [1, 2]},
    "one less": {"id": [3, 4]},
    "other type": {"id": [3, 4], "a": ["1", "2"]},
    "grown struct": {"id": [3, 4], "a": [{"p": 1, "q": 2}] * 2},
}


@pytest.fixture(params=NEWER, ids=str)
def folder(request: Any, tmp_path: Path) -> str:
    first = FIRST | {"a": [{"p": 1}] * 2} if request.param == "grown struct" else FIRST
    (tmp_path / "grown").mkdir()
    for name, table in (("a", first), ("b", NEWER[request.param])):
        pq.write_table(pa.table(table), tmp_path / "grown" / f"{name}.parquet")
    return (tmp_path / "grown").as_uri()


def read(url: str, **options: Any) -> list[int]:
    with make_batch_reader(
        url, num_epochs=1, shuffle_row_groups=False, **{"schema_fields": ["id"], **options}
    ) as reader:
        return [number for batch in reader for number in batch.id.tolist()]


def load(url: str, **options: Any) -> list[int]:
    how = {"num_epochs": 1, "shuffle_row_groups": False, "schema_fields": ["id"], **options}
    with make_spark_converter(url).make_torch_dataloader(4, **how) as loader:
        rows = loader.trace().rows(0)
        found = [number for batch in loader for number in batch["id"].tolist()]
    assert found == [row + 1 for row in rows.tolist()]
    return found


def load_of_reader(url: str) -> list[int]:
    reader = make_batch_reader(url, num_epochs=1, shuffle_row_groups=False, schema_fields=["id"])
    with BatchedDataLoader(reader, 4) as loader:
        return [number for batch in loader for number in batch["id"].tolist()]


def load_by_tensorflow(url: str) -> list[int]:
    pytest.importorskip("tensorflow")
    how: dict[str, Any] = {"schema_fields": ["id"], "shuffle_row_groups": False}
    with make_spark_converter(url).make_tf_dataset(4, num_epochs=1, **how) as dataset:
        return [number for batch in dataset for number in batch.id.numpy().tolist()]


def load_on_two_ranks(url: str) -> list[int]:
    return sorted(n for rank in range(2) for n in load_share(url, rank))


def load_share(url: str, rank: int) -> Iterator[int]:
    how: dict[str, Any] = {"cur_shard": rank, "shard_count": 2, "schema_fields": ["id"]}
    with make_spark_converter(url).make_torch_dataloader(4, num_epochs=1, **how) as loader:
        state = loader.state_dict()
        loader.load_state_dict(state)
        for batch in loader:
            yield from batch["id"].tolist()


def read_dataset(url: str) -> list[int]:
    found: list[int] = open_dataset(url).to_table(["id"])["id"].to_pylist()
    return found


def read_converted(url: str) -> list[int]:
    dataset = convert(url, f"{url}-mds", columns=["id"], progress=False)
    return [int(dataset[row]["id"]) for row in range(len(dataset))]


@pytest.mark.parametrize(
    "ids",
    [
        read, load, load_of_reader, load_by_tensorflow, load_on_two_ranks, read_dataset,
        read_converted,
    ],
)  # fmt: skip
def test_columns_that_all_files_have_are_read_from_a_grown_folder(
    folder: str, ids: Callable[[str], list[int]]
) -> None:
    assert ids(folder) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "conditions",
    [
        {"filters": [("id", ">", 1)]},
        {"where": pc.field("id") > 1},
        {"where": pc.field("id") * 2 > 2},
        {"where": [("id", ">", 1)]},
        {"predicate": in_set({2, 3, 4}, "id")},
    ],
    ids=str,
)
def test_filter_of_grown_folder_needs_only_its_columns(
    folder: str, conditions: dict[str, Any]
) -> None:
    assert read(folder, **conditions) == [2, 3, 4]


def test_all_columns_of_grown_folder_raise_error_naming_those_that_differ(folder: str) -> None:
    message = r"differ in the columns \['[az]'\]: .*b\.parquet.*Leave them out with schema_fields="
    fields = [".*"]  # also structs, which are otherwise ignored
    for attempt in (
        lambda: read(folder, schema_fields=fields),
        lambda: load(folder, schema_fields=fields),
        lambda: open_dataset(folder)[0],
        lambda: next(open_dataset(folder).batches(4)),
        lambda: convert(folder, f"{folder}-mds", progress=False),
    ):
        with pytest.raises(UnsupportedTableError, match=message):
            attempt()


def test_condition_on_column_that_differs_raises_error(tmp_path: Path) -> None:
    for name, table in (("a", FIRST), ("b", NEWER["other type"])):
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    url = tmp_path.as_uri()
    conditions: list[dict[str, Any]] = [
        {"filters": [("a", "=", 1)]}, {"where": pc.field("a") == 1}, {"where": [("a", "=", 1)]},
    ]  # fmt: skip
    for condition in conditions:
        with pytest.raises(UnsupportedTableError, match=r"differ in the columns \['a'\]"):
            read(url, **condition)
    # A value that is also the name of a column is no use of the column.
    assert read(url, where=pc.field("id").cast(pa.string()) != "a") == [1, 2, 3, 4]


def test_fields_of_grown_dataset_of_petastorm_are_read(tmp_path: Path) -> None:
    schema = Unischema("S", [UnischemaField("id", "int64", (), None, False)])
    with materialize_dataset(None, tmp_path.as_uri(), schema):
        for name, table in (("a", {"id": [1, 2]}), ("b", {"id": [3, 4], "z": [1, 2]})):
            pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    with make_reader(tmp_path.as_uri(), num_epochs=1, shuffle_row_groups=False) as reader:
        assert [row.id for row in reader] == [1, 2, 3, 4]
    with (
        pytest.raises(errors.PetastormMetadataGenerationError, match="has no column 'id'"),
        materialize_dataset(None, tmp_path.as_uri(), schema),
    ):
        pq.write_table(pa.table({"z": [1]}), tmp_path / "c.parquet")
