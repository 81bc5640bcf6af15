"""Rows that readers return from selections, pieces of shards and weighted sampling."""

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.small_datasets import write_dataset
from tests.unit.compat.selection.parquet_files import column, write

from mdstorm._selection import RankShare, ShardView, SplitShards
from mdstorm.errors import InvalidArgumentError
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index
from mdstorm.ngram import NGram
from mdstorm.predicates import in_set
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.selectors import SingleIndexSelector
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm.weighted_sampling_reader import WeightedSamplingReader
from mdstorm_backend.order import World
from mdstorm_backend.read import SampleSource

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader supports reading only")

ROWS = 40
TABLE = pa.table(
    {
        "year": np.arange(ROWS) // 20,
        "id": np.arange(ROWS),
        "name": [f"n{i % 5}" if i % 7 else None for i in range(ROWS)],
        "at": np.arange(ROWS) // 10 * 5 + np.arange(ROWS),
    }
)


@pytest.fixture(scope="module", params=["parquet", "mds"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Forty rows in several shards; the Parquet files are partitioned by year."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "parquet":
        write(directory, TABLE, by=["year"])
    else:
        types = {"year": "long", "id": "long", "name": "string", "at": "long"}
        assert len(write_dataset(directory, TABLE, types, shard_size=1600).shard_sizes) > 1
    build_rowgroup_index(directory.as_uri(), None, [SingleFieldIndexer("ids", "id")])
    return directory.as_uri()


def ids(make: Any, url: str, **options: Any) -> list[int]:
    """Return the ids of all rows, after checking that their names match."""
    found: list[int] = []
    with make(url, **options) as reader:
        for item in reader:
            names = np.atleast_1d(item.name).tolist() if hasattr(item, "name") else []
            here = np.atleast_1d(item.id)
            assert here.dtype == np.int64
            assert not names or names == [TABLE["name"][i].as_py() for i in here.tolist()]
            found += here.tolist()
    return found


READERS = pytest.mark.parametrize("make", [make_reader, make_batch_reader], ids=["rows", "batches"])


@pytest.mark.matrix
@READERS
@pytest.mark.filterwarnings("ignore:No matching data is available")  # one rank may have no rows
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"filters": [("year", "=", 1)]}, range(20, 40)),
        ({"filters": [("id", "<", 3)], "schema_fields": ["id"]}, range(3)),
        ({"filters": [("year", "=", 1)], "schema_fields": ["id"]}, range(20, 40)),
        ({"predicate": in_set([0], "year")}, range(20)),
        ({"predicate": in_set([1], "year"), "filters": [("id", "<", 22)]}, [20, 21]),
        ({"predicate": in_set(["n1"], "name"), "shuffle_row_drop_partitions": 3}, None),
        ({"shuffle_row_drop_partitions": 7}, range(ROWS)),
    ],
)
def test_readers_return_only_selected_rows(
    make: Any, url: str, options: Any, expected: Any
) -> None:
    if expected is None:
        expected = [i for i in range(ROWS) if TABLE["name"][i].as_py() == "n1"]
    for ranks in (1, 2):
        found = [
            ids(make, url, shuffle_row_groups=False, cur_shard=rank, shard_count=ranks, **options)
            for rank in range(ranks)
        ]
        assert sum(found, []) == list(expected)  # noqa: RUF017


@READERS
def test_selector_applies_before_predicates_and_filters(make: Any, url: str) -> None:
    selector = SingleIndexSelector("ids", [3])
    found = ids(make, url, rowgroup_selector=selector)
    assert 3 in found
    assert 0 < len(found) < ROWS
    more = ids(make, url, rowgroup_selector=selector, predicate=in_set([3, 39], "id"))
    assert more == [3]


def ngrams(url: str, **options: Any) -> list[tuple[int, int, int]]:
    spec = NGram({0: ["id", "name"], 2: ["i."], 1: ["id"]}, 1, "at")
    with make_reader(url, schema_fields=spec, **options) as reader:
        return [(int(item[0].id), int(item[1].id), int(item[2].id)) for item in reader]


def test_each_n_gram_is_read_once(url: str) -> None:
    """Neither the number of readers nor the number of parts per shard matters."""
    expected = ngrams(url, shuffle_row_groups=False)
    assert len(expected) >= 20
    assert all(c == b + 1 == a + 2 for a, b, c in expected)
    assert not [first for first, _, last in expected if first // 10 != last // 10]
    for options in [
        {"shuffle_row_drop_partitions": 4},
        {"seed": 3, "workers_count": 3},
        {"shuffle_row_drop_partitions": 2, "shuffle_row_groups": False},
    ]:
        assert sorted(ngrams(url, **options)) == expected
        for ranks in (2, 5):
            found = [ngrams(url, cur_shard=r, shard_count=ranks, **options) for r in range(ranks)]
            assert sorted(sum(found, [])) == expected  # noqa: RUF017


def test_selection_without_rows_warns(url: str) -> None:
    with pytest.warns(UserWarning, match="No matching data"):
        assert ids(make_batch_reader, url, predicate=in_set([-1], "id")) == []
    none = SingleIndexSelector("ids", [-1])
    with pytest.warns(UserWarning, match="No matching data"):
        assert ids(make_reader, url, rowgroup_selector=none) == []


PIECES = pa.table({"id": pa.array(range(30), pa.int64()), "s": [f"t{i}" for i in range(30)]})


@pytest.fixture(scope="module", params=["parquet", "mds"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Thirty rows in shards of 11, 11 and 8 rows, or of sizes chosen by the MDS writer."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "parquet":
        return write(directory, PIECES, rows=11)
    return write_dataset(directory, PIECES, {"id": "long", "s": "string"}, shard_size=1300)


#: How Petastorm 0.13.1 splits a row group with 11 rows.
CUTS = {2: [6, 5], 3: [4, 4, 3], 5: [3, 2, 2, 2, 2], 7: [2, 2, 1, 2, 1, 2, 1], 20: [1] * 11}


@pytest.mark.parametrize("parts", CUTS)
def test_row_groups_are_split_as_in_petastorm(parts: int, tmp_path: Path) -> None:
    split = SplitShards(write(tmp_path, PIECES.slice(0, 11)), parts)
    assert list(split.shard_sizes) == CUTS[parts]
    assert column(split, "id") == list(range(11))


@pytest.mark.parametrize("parts", [1, 2, 4, 50])
def test_shard_pieces_contain_each_row_once(source: SampleSource, parts: int) -> None:
    assert len(source.shard_sizes) > 1
    split = pickle.loads(pickle.dumps(SplitShards(source, parts)))  # noqa: S301  # our own
    assert len(split) == sum(split.shard_sizes) == 30
    assert split.bounds.tolist() == [0, *np.cumsum(split.shard_sizes)]
    assert column(split, "id") == list(range(30))
    assert [split.sample(i)["s"] for i in range(30)] == PIECES["s"].to_pylist()
    assert split[-1]["id"] == 29
    assert sum(split.shard_bytes) <= split.nbytes + len(split.shard_sizes)
    assert split.schema == source.schema
    assert split.is_mapped == source.is_mapped
    assert len({split.fingerprint, source.fingerprint, SplitShards(source, 3).fingerprint}) == 3


def test_fingerprint_of_view_identifies_its_pieces(source: SampleSource) -> None:
    def first(rows: int) -> str:
        sizes = np.minimum(source.shard_sizes, rows)
        return ShardView(source, np.arange(len(sizes)), 0 * sizes, sizes).fingerprint

    assert first(3) == first(3)
    assert len({source.fingerprint, first(3), first(4), first(30)}) == 4


def test_fingerprints_of_views_are_those_in_states_of_version_5(source: SampleSource) -> None:
    rank = RankShare(source, range(5, 9), World(1, 2), overlap=3)
    for view, pieces in [
        (SplitShards(source, 2, overlap=1), "in 2 with 1"),
        (rank, "rank 1 of 2 with 3"),
    ]:
        text = f"{source.fingerprint} {pieces}"
        assert view.fingerprint == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_shard_piece_reads_its_own_rows_and_samples(source: SampleSource) -> None:
    split = SplitShards(source, 2)
    piece, start = split.shard(1), split.shard_sizes[0]
    rows = np.array([0, 2])
    assert piece.read(rows, ["id"])["id"].tolist() == [start, start + 2]
    assert piece.sample(1, ["id"]) == {"id": start + 1}
    with pytest.raises(IndexError, match="of"):
        piece.sample(piece.num_samples)
    found = split.find_open(1)
    assert found is not None
    assert found.num_samples == piece.num_samples
    piece.will_need()
    piece.make_ready(["id"])


def test_piece_of_a_decoded_row_group_has_its_own_rows(tmp_path: Path) -> None:
    pieces = SplitShards(write(tmp_path, PIECES, rows=11), 2)
    for number in range(2):
        piece = pieces.shard(number)
        piece.make_ready(["id"])
        decoded, every = piece.decoded(["id"]), np.arange(piece.num_samples)
        assert decoded is not None
        assert decoded["id"].tolist() == piece.read(every, ["id"])["id"].tolist()


def schema(*names: str) -> Unischema:
    return Unischema("Sch", [UnischemaField(name, np.int64, (), None, False) for name in names])


class Rows:
    """A reader that returns `value` for each of its `count` rows."""

    def __init__(self, value: Any, count: int = 5, **attributes: Any) -> None:
        self.batched_output, self.ngram, self.schema = False, None, schema("a")
        self.last_row_consumed, self.calls = False, []
        self.value, self.left = value, count
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 7

    def __next__(self) -> Any:
        if not self.left:
            self.last_row_consumed = True
            raise StopIteration
        self.left -= 1
        return self.value

    def stop(self) -> None:
        self.calls.append("stop")

    def join(self) -> None:
        self.calls.append("join")


def draw(weights: Any, count: int = 5, **options: Any) -> list[Any]:
    return list(WeightedSamplingReader([Rows(1, count), Rows(2, count)], weights, **options))


def test_weighted_sampling_draws_like_petastorm() -> None:
    np.random.seed(1)  # noqa: NPY002  # Petastorm's generator
    assert draw([1, 3]) == [2, 2, 1, 2, 1, 1, 1, 2, 2]
    assert draw([1, 3], seed=1) == [2, 2, 1, 2, 1, 1, 1, 2, 2]


def test_weighted_sampling_ends_when_the_first_reader_ends() -> None:
    first, second = Rows(1, 1), Rows(2, 100)
    reader = WeightedSamplingReader([first, second], [1, 1], seed=0)
    assert not reader.last_row_consumed
    found = list(reader)
    assert found.count(1) == 1
    assert reader.last_row_consumed
    for _ in range(10):
        with pytest.raises(StopIteration):
            reader.next()
    first.left, first.last_row_consumed = 1, False  # as `reset` does
    assert list(reader).count(1) == 1


def test_weighted_sampling_reader_has_its_readers_attributes() -> None:
    readers = [Rows(1, batched_output=True), Rows(2, batched_output=True)]
    reader = WeightedSamplingReader(tuple(readers), np.array([1, 1]))
    assert (reader.batched_output, reader.is_batched_reader, reader.ngram) == (True, True, None)
    assert reader.schema is readers[0].schema
    assert len(reader) == 14
    with reader as entered:
        assert entered is reader
    assert [each.calls for each in readers] == [["stop", "join"]] * 2


@pytest.mark.parametrize(
    ("readers", "weights", "message"),
    [
        ([Rows(1), Rows(2, ngram=NGram({0: ["a"]}, 1, "a"))], [1, 1], "same ngram spec"),
        ([Rows(1), Rows(2, batched_output=True)], [1, 1], 'same value of "batched_output"'),
        ([Rows(1), Rows(2)], [0, 0], "with a positive sum"),
        ([Rows(1), Rows(2)], [float("nan"), 2], "non-negative numbers"),
        ([Rows(1), Rows(2)], [float("inf"), 2], "with a positive sum"),
    ],
)
def test_weighted_sampling_with_mismatched_readers_or_bad_weights_raises_error(
    readers: Any, weights: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        WeightedSamplingReader(readers, weights)
