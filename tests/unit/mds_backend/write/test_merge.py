import json
import os
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kit.small_datasets import numbers_in, write_ints

from mdstorm_backend import MDSWriter, errors, merge_index, open_dataset
from mdstorm_backend.storage import Location


def write(directory: Any, *numbers: int, **options: Any) -> str:
    """Write a dataset of numbers, and return the path of its index."""
    write_ints(directory, numbers, size_limit=230, **options)
    return f"{directory}/index.json"


def write_days(directory: str | Path, *days: date | None, name: str = "day") -> None:
    pairs = pa.array([[1.0, 2.0]] * len(days), pa.list_(pa.float64()))
    with MDSWriter(out=str(directory)) as writer:
        writer.write_batch(pa.table({name: pa.array(days, pa.date32()), "x": pairs}))


def names_in(directory: Path) -> list[str]:
    shards = json.loads((directory / "index.json").read_text())["shards"]
    return [(shard["zip_data"] or shard["raw_data"])["basename"] for shard in shards]


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_merging_a_root_joins_all_datasets_in_path_order(tmp_path: Path) -> None:
    for name in ("2", "10", "1", "a-b", "a"):
        write(tmp_path / name, int(name) if name.isdigit() else ord(name[-1]))
    merge_index(str(tmp_path))
    assert [os.path.dirname(name) for name in names_in(tmp_path)] == ["1", "10", "2", "a-b", "a"]
    assert numbers_in(tmp_path) == [1, 10, 2, ord("b"), ord("a")]


def test_merging_a_list_keeps_its_order_without_duplicates(tmp_path: Path) -> None:
    parts = [write(tmp_path / name, number) for number, name in enumerate("cab")]
    merge_index([*parts, parts[0]], str(tmp_path))
    assert numbers_in(tmp_path) == [0, 1, 2]


def test_merge_after_merging_children_counts_each_shard_once(tmp_path: Path) -> None:
    for number, name in enumerate(("a/p0", "a/p1", "b/p0", "b/p1")):
        write(tmp_path / name, number)
    # Later merges keep this order of the datasets in `a`.
    merge_index([f"{tmp_path}/a/{name}/index.json" for name in ("p1", "p0")], tmp_path / "a")
    merge_index(tmp_path / "b")
    merge_index(tmp_path)
    assert numbers_in(tmp_path) == [1, 0, 2, 3]
    merge_index([str(tmp_path / name / "index.json") for name in "ba"], tmp_path)
    assert numbers_in(tmp_path) == [2, 3, 1, 0]
    assert numbers_in(tmp_path / "a") == [1, 0]


def test_merge_writes_only_the_index(tmp_path: Path) -> None:
    write(tmp_path / "a", 1, 2)
    (tmp_path / "a" / "expected.json").write_text("{}")
    (tmp_path / "notes.json").write_text("[]")
    before = tree(tmp_path)
    for keep_local in (True, False):
        merge_index(str(tmp_path), keep_local)
        merge_index([f"{tmp_path}/a/index.json"], str(tmp_path), keep_local, 10)
    assert tree(tmp_path) == before | {"index.json"}
    assert numbers_in(tmp_path / "a") == numbers_in(tmp_path) == [1, 2]


@pytest.mark.parametrize("name", ["a#b", "a?b", "a b", "a%20b", "ü", "index.json.d"])
def test_merge_accepts_directories_of_any_name(tmp_path: Path, name: str) -> None:
    part = write(tmp_path / name, 1, 2)
    merge_index(str(tmp_path))
    assert numbers_in(tmp_path) == [1, 2]
    merge_index([part], str(tmp_path))
    assert names_in(tmp_path) == [f"{name}/shard.00000.mds"]


def test_merge_accepts_remote_urls_and_keyword_arguments() -> None:
    for name in ("b", "a"):
        write(f"memory://merge/{name}", ord(name))
    merge_index(out="memory://merge")
    assert numbers_in("memory://merge") == [ord("a"), ord("b")]
    urls = ["memory://merge/b/index.json", "memory://merge/a/index.json"]
    merge_index(index_file_urls=urls, out="memory://merge")
    assert numbers_in("memory://merge") == [ord("b"), ord("a")]


@pytest.mark.parametrize("keep_local", [True, False])
@pytest.mark.parametrize("form", ["root", "list"])
def test_merge_accepts_pairs_of_local_and_remote(
    tmp_path: Path, keep_local: bool, form: str
) -> None:
    remote = f"memory://pairs/{keep_local}/{form}"
    local = tmp_path / "local"
    parts = []
    for name in "ab":
        write((str(local / name), f"{remote}/{name}"), ord(name), keep_local=True)
        parts.append((f"{local}/{name}/index.json", f"{remote}/{name}/index.json"))
    shutil.rmtree(local / "b")  # a list's index of `b` is then read from `remote`
    if form == "list":
        merge_index(parts, (str(local), remote), keep_local)
        assert numbers_in(remote) == [97, 98]
    else:
        merge_index((str(local), remote), keep_local)
        assert numbers_in(remote) == [97]
    assert (local / "index.json").exists() == keep_local


def test_merge_keeps_types_and_null_counts_that_the_parts_agree_on(tmp_path: Path) -> None:
    write_days(tmp_path / "a", date(2024, 1, 1), None)
    write_days(tmp_path / "b", None, None, date(2024, 1, 2))
    write_days(tmp_path / "c")
    merge_index(str(tmp_path))
    dataset = open_dataset(str(tmp_path))
    assert dataset.schema["day"].null_count == 3
    assert dataset.schema["x"].length == 2
    days = dataset.to_table()["day"].to_pylist()
    assert days == [date(2024, 1, 1), None, None, None, date(2024, 1, 2)]
    assert dataset.index.extra["num_rows"] == 5


def test_merging_parts_with_unknown_null_counts_warns_and_records_no_types(tmp_path: Path) -> None:
    with MDSWriter(out=tmp_path / "a" / "p0", size_limit=1) as writer:
        writer.write_batch(pa.table({"day": pa.array([None, date(2024, 1, 1)], pa.date32())}))
    merge_index(tmp_path / "a")
    upper = tmp_path / "a" / "index.json"
    index = json.loads(upper.read_text())
    del index["shards"][1]  # the upper index now lists only one of the shards
    index["mdstorm"]["num_rows"] = 1
    upper.write_text(json.dumps(index))
    with pytest.warns(UserWarning, match="the merged index records no types"):
        merge_index(tmp_path)
    assert len(open_dataset(str(tmp_path))) == 2
    assert "mdstorm" not in json.loads((tmp_path / "index.json").read_text())


@pytest.mark.parametrize("first", [False, True])
def test_merged_column_is_nullable_if_that_of_any_part_is(tmp_path: Path, first: bool) -> None:
    for name, nullable in {"a": first, "b": not first}.items():
        field = pa.field("day", pa.date32(), nullable=nullable)
        days = [None if nullable else date(2024, 1, 1)]
        with MDSWriter(out=str(tmp_path / name)) as writer:
            writer.write_batch(pa.table([days], pa.schema([field])))
    merge_index(str(tmp_path))
    dataset = open_dataset(str(tmp_path))
    assert (dataset.schema["day"].nullable, dataset.schema["day"].null_count) == (True, 1)
    expected = [None, date(2024, 1, 1)]
    assert dataset.to_table()["day"].to_pylist() == (expected if first else expected[::-1])


@pytest.mark.parametrize("other", ["plain", "name"])
def test_merging_datasets_with_different_types_warns_and_records_no_types(
    tmp_path: Path, other: str
) -> None:
    write_days(tmp_path / "a", date(2024, 1, 1))
    if other == "plain":
        write(tmp_path / "b", 1)
    else:
        write_days(tmp_path / "b", date(2024, 1, 1), name="date")
    with pytest.warns(UserWarning, match="do not have the same types") as caught:
        merge_index(str(tmp_path))
    assert caught[0].filename == __file__
    assert "mdstorm" not in json.loads((tmp_path / "index.json").read_text())


@pytest.mark.parametrize(
    ("newer", "message"),
    [
        ({"id": [2]}, r"has no columns \['x'\], which other shards"),
        ({"id": [2], "x": [0.5]}, "'x' is stored in shards as float64 and int64"),
    ],
    ids=["one column less", "other type"],
)
def test_columns_that_merged_days_have_in_common_are_read(
    tmp_path: Path, newer: dict[str, Any], message: str
) -> None:
    older = {"id": [0, 1], "x": [1, 2], "day": [date(2024, 1, 1)] * 2}
    for name, columns in {"a": older, "b": newer | {"day": [date(2024, 1, 2)]}}.items():
        with MDSWriter(out=str(tmp_path / name)) as writer:
            writer.write_batch(pa.table(columns))
    with pytest.warns(UserWarning, match="do not have the same types"):
        merge_index(str(tmp_path))
    dataset = open_dataset(str(tmp_path))
    assert dataset.to_table(["id"])["id"].to_pylist() == [0, 1, 2]
    assert dataset.numbers([("id", ">", 0)]).tolist() == [1, 2]
    assert [dataset.sample(row, ["day"])["day"] for row in range(1, 3)] == [
        date(2024, 1, 1),
        date(2024, 1, 2),
    ]
    with pytest.raises(
        (errors.CorruptDatasetError, errors.UnsupportedEncodingError), match=message
    ):
        dataset.to_table()


def test_merging_into_a_root_that_is_a_dataset_raises_error_and_keeps_it(tmp_path: Path) -> None:
    write(tmp_path / "val", 1)
    write(tmp_path / "train", 2)
    for file in (tmp_path / "train").iterdir():
        file.rename(tmp_path / file.name)
    with pytest.raises(errors.WriteError, match=r"is itself a dataset: .* shard\.00000\.mds"):
        merge_index(str(tmp_path))
    assert numbers_in(tmp_path) == [2]
    (tmp_path / "shard.00000.mds").unlink()
    merge_index(str(tmp_path))
    assert numbers_in(tmp_path) == [1]


def test_merging_conflicting_entries_for_a_shard_raises_error(tmp_path: Path) -> None:
    write(tmp_path / "a/p", 1)
    merge_index(tmp_path / "a")
    shutil.rmtree(tmp_path / "a/p")
    write(tmp_path / "a/p", 1, 2)
    with pytest.raises(errors.CorruptDatasetError, match="each other about the shard a/p/shard"):
        merge_index(tmp_path)
    assert not (tmp_path / "index.json").exists()


def test_merging_an_empty_list_warns_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"list of index\.json files is empty"):
        merge_index([], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_merging_missing_or_misplaced_datasets_raises_error(tmp_path: Path) -> None:
    part = write(tmp_path / "a", 1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.InvalidArgumentError, match="nothing to merge: no directory under"):
        merge_index(tmp_path / "empty")
    for name in ("a", "empty"):
        with pytest.raises(errors.InvalidArgumentError, match="is not in a directory under"):
            merge_index([part], tmp_path / name)
    with pytest.raises(errors.InvalidArgumentError, match=r"path or URL of an index\.json"):
        merge_index([str(tmp_path / "a")], tmp_path)
    for missing in (f"{tmp_path}/b/index.json", "/b/index.json", ("/b/index.json", "")):
        with pytest.raises(errors.DatasetNotFoundError, match=r"there is no file:.*/b/index\.json"):
            merge_index([part, missing], tmp_path)
    (tmp_path / "a" / "index.json").write_text('{"shards": []}')
    with pytest.raises(errors.CorruptDatasetError, match="is not the index of an MDS dataset"):
        merge_index(tmp_path)
    assert not (tmp_path / "index.json").exists()
    assert Location.of(str(tmp_path / "empty")).list_names() == []
