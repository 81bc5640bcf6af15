"""Readers and `convert` return a Delta table's live rows after any change."""

import datetime
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.delta_tables import WITH_VECTORS, add, commit, field, kill, live_files, metadata

from mdstorm import convert
from mdstorm.cli import main
from mdstorm.codecs import NdarrayCodec
from mdstorm.errors import (
    InvalidArgumentError,
    UnsupportedTableError,
)
from mdstorm.etl.dataset_metadata import (
    PetastormMetadataGenerationError,
    materialize_dataset,
)
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda, in_set
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend import open_dataset

Row = tuple[int, str | None]
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
FIELDS = [field("id", "long"), field("text", "string")]
ROWS = 60
#: Deleted rows in the table below: all rows in the first file, and a few others.
DEAD = [*range(20), 21, 22, 23, 24, 39, 40, 59]
ALIVE = [n for n in range(ROWS) if n not in DEAD]


def table_of(rows: list[Row]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[], []], schema=SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A three-file table with deletion vectors; ``text`` is the id, or null for odd ids."""
    folder = tmp_path_factory.mktemp("delta") / "table"
    rows = [(n, None if n % 2 else str(n)) for n in range(ROWS)]
    adds = [
        add(
            folder,
            f"{name}.parquet",
            table_of(rows[start : start + 20]),
            dead=[n - start for n in DEAD if start <= n < start + 20],
            row_group_size=10,
            nulls={"id": 0, "text": 10},
        )
        for name, start in (("a", 0), ("b", 20), ("c", 40))
    ]
    commit(folder, WITH_VECTORS, metadata(FIELDS), *adds)
    return folder


def url(path: Path) -> str:
    return f"file://{path}"


def read(path: Path, **options: Any) -> list[Row]:
    with make_batch_reader(url(path), shuffle_row_groups=False, **options) as reader:
        return [row for batch in reader for row in zip(*map(_values, batch), strict=True)]


def _values(column: Any) -> list[Any]:
    return [None if value is None else value for value in np.asarray(column, object).tolist()]


def ids(path: Path, **options: Any) -> list[int]:
    return [row[0] for row in read(path, **options)]


# Each of these functions modifies the table and returns it with its expected rows.
State = tuple[Path, list[Row], dict[str, set[int]]]
texts = st.none() | st.text("ab%/ ", max_size=3)
some_rows = st.lists(st.tuples(st.integers(0, 30), texts), min_size=1, max_size=12)


def append(state: State, rows: list[Row]) -> State:
    path, found, dead = state
    write_deltalake(str(path), table_of(rows), mode="append")
    return path, found + rows, dead


def overwrite(state: State, rows: list[Row]) -> State:
    path, _, _ = state
    write_deltalake(str(path), table_of(rows), mode="overwrite")
    return path, list(rows), {}


def delete(state: State, rows: list[Row]) -> State:
    """Delete with delta-rs, which rewrites files instead of writing deletion vectors."""
    path, found, dead = state
    if dead:
        return state
    bound = rows[0][0]
    DeltaTable(str(path)).delete(f"id < {bound}")
    return path, [row for row in found if not row[0] < bound], dead


def merge(state: State, rows: list[Row]) -> State:
    path, found, dead = state
    if dead:
        return state
    new = dict(rows)
    source = table_of(list(new.items()))
    merger = DeltaTable(str(path)).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    merged = [(key, new.get(key, text)) if key in new else (key, text) for key, text in found]
    known = {key for key, _ in found}
    return path, merged + [row for row in new.items() if row[0] not in known], dead


def remove(state: State, rows: list[Row]) -> State:
    """Delete with deletion vectors, as Spark does; a new vector replaces a file's earlier one."""
    path, found, dead = state
    keys = {key for key, _ in rows}
    vectors = {}
    for name in live_files(path):
        stored = pq.read_table(path / name).column("id").to_pylist()
        gone = {place for place, key in enumerate(stored) if key in keys} | dead.get(name, set())
        if gone > dead.get(name, set()):
            vectors[name] = gone
    if vectors:
        kill(path, vectors, inline=len(rows) % 2 == 0)
    return path, [row for row in found if row[0] not in keys], {**dead, **vectors}


STEPS: list[Callable[[State, list[Row]], State]] = [append, overwrite, remove]
if int(pa.__version__.split(".")[0]) >= 16:  # older pyarrow cannot read delta-rs's files
    STEPS += [delete, merge]


@pytest.mark.filterwarnings("ignore:No matching data")
@settings(max_examples=settings.default.max_examples // 3)  # type: ignore[union-attr]
@given(first=some_rows, steps=st.lists(st.tuples(st.sampled_from(STEPS), some_rows), max_size=6))
def test_deleted_rows_are_never_returned(
    tmp_path_factory: pytest.TempPathFactory, first: list[Row], steps: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / f"t{len(os.listdir(folder))}"
    write_deltalake(str(path), table_of(first))
    state: State = (path, first, {})
    versions = [(0, Counter(first))]
    for step, rows in steps:
        state = step(state, rows)
        version = DeltaTable(str(path)).version()
        versions.append((version, Counter(state[1])))
    for version, expected in (versions[0], versions[len(versions) // 2], versions[-1]):
        assert Counter(read(path, version=version)) == expected
    assert Counter(read(path)) == versions[-1][1]
    mds = convert(str(path), f"{path}-mds")
    assert Counter(tuple(mds.sample(i).values()) for i in range(len(mds))) == versions[-1][1]


def test_readers_count_only_live_rows(table: Path) -> None:
    with make_batch_reader(url(table), shuffle_row_groups=False) as reader:
        assert len(reader.dataset) == len(ALIVE)
        assert reader.dataset.table_version == 0
        assert reader.diagnostics["table_version"] == 0
        assert "version 0 of a table" in repr(reader.dataset)
        assert [len(batch.id) for batch in reader] == [15, 18]
        assert [Path(piece.path).name for piece in reader.dataset.pieces] == [
            "a.parquet",
            "b.parquet",
            "c.parquet",
        ]


def test_predicates_and_filters_see_only_live_rows(table: Path) -> None:
    assert ids(table, predicate=in_set([5, 21, 25, 26, 59, 58], "id")) == [25, 26, 58]
    odd = in_lambda(["id"], lambda number: number % 2 == 1)
    assert ids(table, predicate=odd) == [n for n in ALIVE if n % 2]
    # Row group and file statistics also cover deleted rows.
    assert ids(table, filters=[("id", "<", 28)]) == [n for n in ALIVE if n < 28]
    assert ids(table, filters=[("id", ">", 52)]) == [n for n in ALIVE if n > 52]
    assert ids(table, filters=[("text", "=", "30")]) == [30]


def test_filters_on_partitions_skip_files(tmp_path: Path) -> None:
    rows = pa.table({"p": pa.array([1, 2, 2, None]), "id": pa.array(range(4))})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    (tmp_path / "t" / "p=1").rename(tmp_path / "elsewhere")
    options: dict[str, Any] = {"schema_fields": ["id"], "shuffle_row_groups": False}
    with make_batch_reader(url(tmp_path / "t"), filters=[("p", "=", 2)], **options) as reader:
        assert sorted(int(n) for batch in reader for n in batch.id) == [1, 2]
    with make_batch_reader(url(tmp_path / "t"), predicate=in_set([2], "p")) as reader:
        assert sorted(int(n) for batch in reader for n in batch.id) == [1, 2]


@pytest.mark.parametrize("text", ["2024-01-02", "1.5", "true", "2"])
def test_filters_on_partitions_accept_strings(tmp_path: Path, text: str) -> None:
    values = {
        "2024-01-02": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
        "1.5": [0.5, 1.5],
        "true": [False, True],
        "2": [1, 2],
    }
    rows = pa.table({"id": [0, 1], "p": values[text]})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    for condition in ("=", text), (">=", text), ("in", [text]):
        assert ids(tmp_path / "t", filters=[("p", *condition)]) == [1]
    with pytest.raises(InvalidArgumentError, match=r"'neither'.*pass a (value|datetime\.date)"):
        ids(tmp_path / "t", filters=[("p", "=", "neither")])


def test_rows_and_n_grams_contain_only_live_rows(table: Path) -> None:
    with pytest.warns(UserWarning, match="supports reading only Petastorm datasets"):
        reader = make_reader(url(table), shuffle_row_groups=False)
    with reader:
        assert [int(row.id) for row in reader] == ALIVE
    ngram = NGram({0: ["id"], 1: ["id"]}, 1, UnischemaField("id", np.int64, ()))
    with pytest.warns(UserWarning, match="supports reading only Petastorm datasets"):
        reader = make_reader(url(table), schema_fields=ngram, shuffle_row_groups=False)
    with reader:
        found = [(int(window[0].id), int(window[1].id)) for window in reader]
    assert found == [(n, n + 1) for n in ALIVE if n + 1 in ALIVE]


@pytest.mark.parametrize("keep", [True, False])
def test_conversion_with_or_without_row_groups_writes_only_live_rows(
    table: Path, tmp_path: Path, keep: bool
) -> None:
    dataset = convert(str(table), str(tmp_path / "mds"), keep_row_groups=keep)
    assert [dataset.sample(i)["id"] for i in range(len(dataset))] == ALIVE
    assert dataset.shard_sizes == ((6, 9, 9, 9) if keep else (len(ALIVE),))
    verify = ["verify", dataset.url, "--against", str(table)]
    assert CliRunner().invoke(main, verify).exit_code == 0


def test_version_and_timestamp_select_table_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), table_of([(1, "a")]))
    write_deltalake(str(path), table_of([(2, "b")]), mode="overwrite")
    dataset = convert(str(path), str(tmp_path / "mds"), version=0)
    assert dataset.sample(0) == {"id": 1, "text": "a"}
    with make_batch_reader(url(path), timestamp="2100-01-01") as reader:
        assert next(reader).id.tolist() == [2]
    with pytest.raises(InvalidArgumentError, match="both choose the version"):
        make_batch_reader(url(path), version=1, timestamp="2100-01-01")
    with pytest.raises(InvalidArgumentError, match="is the name of a branch or tag"):
        make_batch_reader(url(path), version="audit")
    assert open_dataset(dataset.url).sample(0) == {"id": 1, "text": "a"}
    with pytest.raises(InvalidArgumentError, match="version=1 chooses a version"):
        make_batch_reader(dataset.url, version=1)
    with pytest.raises(InvalidArgumentError, match="version=1 chooses a version"):
        make_batch_reader(dataset.file_urls, version=1)


def test_petastorm_dataset_converted_to_delta_is_decoded(tmp_path: Path) -> None:
    """CONVERT TO DELTA keeps Petastorm's metadata, which cannot be added to a Delta table later."""
    path = tmp_path / "t"
    fields = [
        UnischemaField("id", np.int64, (), None, False),
        UnischemaField("array", np.float32, (2,), NdarrayCodec(), False),
    ]
    schema = Unischema("Rows", fields)
    encoded = [
        bytes(NdarrayCodec().encode(fields[1], np.array([n, -n], np.float32))) for n in range(4)
    ]
    rows = pa.table({"id": range(4), "array": encoded})
    added = add(path, "f.parquet", rows)
    with materialize_dataset(None, url(path), schema):
        pass
    commit(path, WITH_VECTORS, metadata([field("id", "long"), field("array", "binary")]), added)
    kill(path, {"f.parquet": [0, 2]})
    with make_reader(url(path), shuffle_row_groups=False) as reader:
        assert [(int(row.id), row.array.tolist()) for row in reader] == [
            (1, [1.0, -1.0]),
            (3, [3.0, -3.0]),
        ]
    with (
        pytest.raises(PetastormMetadataGenerationError, match="and indexes describe files"),
        materialize_dataset(None, url(path), schema),
    ):
        pass
    with pytest.raises(UnsupportedTableError, match="metadata and indexes describe files"):
        build_rowgroup_index(url(path), None, [SingleFieldIndexer("by_id", "id")])
