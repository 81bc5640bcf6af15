"""``row_numbers=``: a column that has the number of each row, which ``rows=`` takes."""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit import delta_tables
from tests.kit.parquet_files import open_parquet
from tests.kit.small_datasets import write_dataset

from mdstorm import TransformSpec, make_batch_reader, make_reader
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    TransformError,
    UnsupportedArgumentError,
)
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda
from mdstorm.spark import SparkDatasetConverter
from mdstorm.weighted_sampling_reader import WeightedSamplingReader
from mdstorm_backend import open_dataset

ROWS = 60
TABLE = pa.table(
    {
        "id": [10 * row for row in range(ROWS)],
        "text": [None if row % 7 == 0 else str(row) for row in range(ROWS)],
        "half": [2 * row // ROWS for row in range(ROWS)],
    }
)


def write(kind: str, path: Path) -> None:
    """Write the table; every seventh row of a Delta table is deleted by a vector."""
    if kind == "mds":
        fields = {"id": "long", "text": "string", "half": "long"}
        write_dataset(path, TABLE, fields, shard_size=1_200)
    elif kind == "partitions":
        pq.write_to_dataset(TABLE, path, ["half"], row_group_size=9, use_threads=False)
    elif kind == "delta":
        fields = [delta_tables.field(name, "long") for name in ("id", "half")]
        fields.insert(1, delta_tables.field("text", "string"))
        protocol = delta_tables.protocol("deletionVectors")
        files = [
            delta_tables.add(
                path, f"{start}.parquet", TABLE.slice(start, 20), dead=[0, 7, 14], row_group_size=9
            )
            for start in (0, 20, 40)
        ]
        delta_tables.commit(path, protocol, delta_tables.metadata(fields), *files)
    else:
        path.mkdir()
        pq.write_table(TABLE, path / "a.parquet", row_group_size=9)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("numbered")
    found = {}
    for kind in ("mds", "parquet", "partitions", "delta"):
        write(kind, folder / kind)
        found[kind] = (folder / kind).as_uri()
    return found


@pytest.fixture(params=["mds", "parquet", "partitions", "delta"])
def url(request: pytest.FixtureRequest, urls: dict[str, str]) -> str:
    return urls[request.param]


def stored_ids(url: str) -> list[int]:
    """Return the ids of all rows, by the number of the row."""
    with make_batch_reader(url, shuffle_row_groups=False, num_epochs=1) as reader:
        return [*chain(*(batch.id.tolist() for batch in reader))]


def read(url: str, **options: Any) -> list[tuple[int, int]]:
    """Return the number and id of each row that is read."""
    options = {"num_epochs": 1, **options}
    with make_batch_reader(url, row_numbers="row", **options) as reader:
        assert list(reader.schema.fields)[-1] == "row" or "null_masks" in options
        return [pair for b in reader for pair in zip(b.row.tolist(), b.id.tolist(), strict=True)]


def check(url: str, pairs: list[tuple[int, int]]) -> None:
    ids = stored_ids(url)
    assert [ids[number] for number, _ in pairs] == [id_ for _, id_ in pairs]


@st.composite
def chains(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a reader's arguments that choose, shuffle, cut and change rows."""
    selection: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"filters": [("id", ">", 200)]},
                {"filters": [("half", "=", 1)]},
                {"filters": [("half", "=", 1), ("id", "<", 500)]},
                {"predicate": in_lambda(["id"], lambda id: id % 30 == 0)},
                {"predicate": in_lambda(["half"], lambda half: half == 1)},
                {"rows": [40, 3, 3, 11]},
                {"rows": slice(5, 50, 4)},
                {"where": [("id", ">=", 300)]},
            ]
        )
    )
    changes = [
        {},
        {"transform_spec": TransformSpec(lambda frame: frame[frame["row"] % 3 == 0])},
        {"transform_spec": TransformSpec(lambda frame: frame, removed_fields=["text"])},
        {"schema_fields": ["id"]},
        {"null_masks": ["text"]},
    ]
    return {
        **selection,
        **draw(st.sampled_from(changes)),
        "shuffle_row_groups": draw(st.booleans()),
        "shuffle_rows": draw(st.booleans()),
        "seed": draw(st.integers(1, 9)),
        "shuffle_row_drop_partitions": draw(st.sampled_from([1, 1, 3])),
        "order": draw(st.sampled_from(["exact", "exact", "elastic"])),
        "num_epochs": draw(st.integers(1, 2)),
    }


# A rank may get none of the rows that a predicate or function keeps. Each example is a whole chain.
@pytest.mark.newest
@settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
@pytest.mark.filterwarnings("ignore:No matching data is available")
@given(arguments=chains(), rank=st.integers(0, 1), ranks=st.integers(1, 2))
def test_numbers_are_those_of_the_stored_rows_in_every_chain(
    urls: dict[str, str], arguments: dict[str, Any], rank: int, ranks: int
) -> None:
    arguments = {**arguments, "cur_shard": min(rank, ranks - 1), "shard_count": ranks}
    for url in urls.values():
        check(url, read(url, **arguments))


def test_trace_gives_the_numbers_in_batches(url: str) -> None:
    options = {"shuffle_rows": True, "seed": 5, "num_epochs": 1, "filters": [("half", "=", 1)]}
    if url.endswith("partitions"):  # the filter leaves out row groups, so rows are known
        with make_batch_reader(url, row_numbers="row", **options) as reader:
            trace = reader.trace()
            numbers = [batch.row.tolist() for batch in reader]
        assert [trace.rows(batch).tolist() for batch in range(len(numbers))] == numbers
        assert trace.where(numbers[1][2]) == (1, 0)
        with pytest.raises(InvalidArgumentError, match="or a filter leaves it out"):
            trace.where(0)


@pytest.mark.parametrize("kind", ["mds", "parquet"])
def test_rows_keep_their_numbers_if_shards_are_left_out(urls: dict[str, str], kind: str) -> None:
    whole = (open_dataset if kind == "mds" else open_parquet)(urls[kind])
    left = whole.with_shards([0, 2, 3]).with_shards([1, 2])
    first, last = int(whole.bounds[2]), int(whole.bounds[4])
    assert np.asarray(left.stored_numbers(range(len(left)))).tolist() == [*range(first, last)]
    some = whole.with_shards([0, 2])
    numbers = np.asarray(some.stored_numbers(range(len(some))))
    assert numbers.tolist() == [*range(whole.shard_sizes[0]), *range(first, int(whole.bounds[3]))]
    assert some.samples_of(numbers).tolist() == [*range(len(some))]
    assert some.samples_of(np.array([whole.shard_sizes[0]])).tolist() == []


@pytest.mark.filterwarnings("ignore:Currently make_reader supports")
def test_trace_of_a_reader_leaves_out_the_rows_that_it_has_returned(url: str) -> None:
    with make_reader(url, row_numbers="row", num_epochs=2, seed=3, schema_fields=["id"]) as reader:
        read = [int(next(reader).row) for _ in range(12)]
        trace, rest = reader.trace(reader.state_dict()), [int(item.row) for item in reader]
    assert trace.rows(slice(None)).tolist() == rest
    first, second = trace.rows(0).tolist(), trace.rows(1).tolist()
    assert first + second == rest[: len(first) + len(second)]
    found = trace.find(np.unique(rest))
    assert sorted(found["row"].to_pylist()) == sorted(rest)
    again = trace.find(read)
    assert again["epoch"].to_pylist() == [1] * len(read)


@pytest.mark.filterwarnings("ignore:Currently make_reader supports")
def test_n_gram_has_the_number_of_its_first_row(url: str) -> None:
    ngram = NGram({-1: ["id"], 0: ["id"]}, delta_threshold=10, timestamp_field="id")
    options = {"cur_shard": 1, "shard_count": 2, "num_epochs": 1}
    with make_reader(url, schema_fields=ngram, row_numbers="row", **options) as reader:
        items = [*reader]
    check(url, [(item[-1].row, item[-1].id) for item in items])
    assert all(item[0]._fields == ("id",) for item in items)


@pytest.fixture
def converter(urls: dict[str, str]) -> SparkDatasetConverter:
    dataset = open_dataset(urls["mds"])
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))


def test_matrix_leaves_out_numbers_and_labels_may_list_them(
    converter: SparkDatasetConverter,
) -> None:
    options = {"num_epochs": 1, "batch_size": 6, "row_numbers": "row", "stack": "float32"}
    options |= {"schema_fields": ["id", "half"], "sample_weights": "row"}
    with converter.make_torch_dataloader(labels="half", **options) as loader:
        features, _, rows = next(iter(loader))
    assert features.shape == (6, 1)
    assert (features[:, 0] == 10 * rows).all()


def test_name_of_a_column_raises_error(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="row_numbers adds a column 'half'"):
        make_batch_reader(url, row_numbers="half")


@pytest.mark.parametrize("name", [True, 3, "", ["row"]])
def test_name_that_is_no_text_raises_error(url: str, name: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="row_numbers must be the name of the column"):
        make_batch_reader(url, row_numbers=name)


def test_readers_of_several_datasets_mixed_into_one_raise_error(urls: dict[str, str]) -> None:
    with (
        make_batch_reader(urls["mds"], row_numbers="row") as first,
        make_batch_reader(urls["parquet"], row_numbers="row") as second,
        pytest.raises(UnsupportedArgumentError, match="row_numbers= counts the rows of one"),
    ):
        WeightedSamplingReader([first, second], [0.5, 0.5])


def test_function_that_drops_the_numbers_raises_error_that_names_them(url: str) -> None:
    spec = TransformSpec(lambda frame: frame[["id", "text", "half"]])
    with (
        make_batch_reader(url, row_numbers="row", transform_spec=spec) as reader,
        pytest.raises(TransformError, match="'row'"),
    ):
        next(reader)


def test_numbers_that_match_conditions_are_those_of_the_rows(urls: dict[str, str]) -> None:
    dataset = open_dataset(urls["mds"])
    numbers = dataset.numbers([("id", ">", 100), ("half", "=", 0)])
    assert numbers.tolist() == [*range(11, 30)]
    assert numbers.dtype == np.int64
    assert dataset.numbers([("id", "<", 0)]).tolist() == []
    assert dataset.to_table(["id"], rows=[7, 2, 2])["id"].to_pylist() == [70, 20, 20]
