"""Reader arguments: their effects, their checks, and the signatures that declare them.

Petastorm's own behaviour is tested in tests/contract/conformance.
"""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.readers import batch_reader, row_reader, write_parquet

from mdstorm._readers import DEFAULTS, AddedReaderKeywords, ReaderArguments, ReaderKeywords
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import DataLoader
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import SparkDatasetConverter


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A hundred rows in row groups of seventeen."""
    return write_parquet(tmp_path_factory.mktemp("hundred"), {"id": range(100)}, row_group_size=17)


def ids(reader: Any) -> list[int]:
    with reader:
        return [int(i) for item in reader for i in np.atleast_1d(item.id)]


def test_reader_with_filesystem_argument_returns_all_rows(hundred: str) -> None:
    filesystem = pa.fs.LocalFileSystem()
    assert ids(batch_reader(hundred, filesystem=filesystem)) == list(range(100))


@pytest.mark.parametrize("integer", [np.int8, np.uint8, np.int32, np.uint64])
def test_numpy_integers_as_arguments_read_the_same_rows(
    hundred: str, integer: Callable[[int], Any]
) -> None:
    def read(integer: Callable[[int], Any]) -> list[list[int]]:
        shard = {"cur_shard": integer(1), "shard_count": integer(3)}
        reader = batch_reader(hundred, num_epochs=integer(3), **shard)
        with DataLoader(reader, batch_size=integer(30)) as loader:
            return [batch["id"].tolist() for batch in loader]

    assert read(integer) == read(int)


def test_shard_seed_warns_and_is_used_as_seed(hundred: str) -> None:
    with pytest.warns(UserWarning, match="shard_seed was deprecated"):
        reader = make_batch_reader(hundred, shard_seed=3, shuffle_rows=True)
    assert ids(reader) == ids(make_batch_reader(hundred, seed=3, shuffle_rows=True))


ARGUMENTS = {
    "shuffle_row_groups": st.booleans(),
    "shuffle_rows": st.booleans(),
    "shuffle_row_drop_partitions": st.integers(1, 9),
    "num_epochs": st.integers(1, 2),
    "seed": st.integers(0, 9),
    "predicate": st.sampled_from([None, in_lambda(["id"], lambda i: i % 3 == 1)]),
}
POOLS = {
    "reader_pool_type": st.sampled_from(["thread", "dummy"]),
    "workers_count": st.integers(1, 4),
}
SHARDS = st.integers(1, 5)


@pytest.mark.newest
@settings(max_examples=20, deadline=None)
@given(st.fixed_dictionaries(ARGUMENTS), st.fixed_dictionaries(POOLS), SHARDS, st.booleans())
@pytest.mark.filterwarnings("ignore:Currently make_reader")
def test_each_row_is_read_once_per_epoch_across_all_shards(
    hundred: str, arguments: dict[str, Any], pool: dict[str, Any], shard_count: int, rows: bool
) -> None:
    found: list[int] = []
    for shard in range(shard_count):
        share = {**arguments, "cur_shard": shard, "shard_count": shard_count}
        one = ids((make_reader if rows else make_batch_reader)(hundred, **pool, **share))
        if arguments["seed"] and shard == 0:
            assert one == ids(make_batch_reader(hundred, reader_pool_type="dummy", **share))
        found += one
    expected = [i for i in range(100) if not arguments["predicate"] or i % 3 == 1]
    assert sorted(found) == sorted(expected * arguments["num_epochs"])


def test_nulls_are_filled_and_masked(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"id": pa.array([1, None, 3])})
    with batch_reader(url, fill_nulls={"id": -1}, null_masks=["id"]) as reader:
        (batch,) = reader
    assert (batch.id.dtype, batch.id.tolist()) == (np.int64, [1, -1, 3])
    assert batch.id_is_null.tolist() == [False, True, False]
    assert reader.schema.fields["id_is_null"].numpy_dtype is np.bool_


def test_pyarrow_serialize_warns(hundred: str) -> None:
    with pytest.warns(UserWarning, match="pyarrow_serialize has no effect"):
        row_reader(hundred, pyarrow_serialize=True)


READERS = pytest.mark.parametrize("make", [make_reader, make_batch_reader])
LOADERS = pytest.mark.parametrize(
    "make", [SparkDatasetConverter.make_torch_dataloader, SparkDatasetConverter.make_tf_dataset]
)

#: Arguments of converters' methods that readers also have.
OF_METHODS = {"num_epochs", "workers_count"}


def added(keywords: type) -> dict[str, Any]:
    """Return the declarations of mdstorm's own keywords in a TypedDict."""
    hints = get_type_hints(keywords, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if hasattr(hint, "__metadata__")}


def test_typed_keywords_that_are_not_declared_match_petastorms_arguments() -> None:
    expected = get_type_hints(ReaderArguments)
    for name in (*OF_METHODS, "shuffling_queue_capacity", "added"):
        del expected[name]
    ours = added(ReaderKeywords)
    found = get_type_hints(ReaderKeywords)
    assert {name: hint for name, hint in found.items() if name not in ours} == expected
    assert ReaderKeywords.__required_keys__ == frozenset()
    assert added(AddedReaderKeywords).keys() == AddedReaderKeywords.__annotations__.keys()


@READERS
def test_reader_signatures_have_every_argument_with_its_default(make: Callable[..., Any]) -> None:
    parameters = dict(inspect.signature(make).parameters)
    del parameters[next(iter(parameters))]
    parameters.pop("pyarrow_serialize", None)
    positional = {n: p.default for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY}
    of_loaders = {"shuffling_queue_capacity", "added"}
    assert positional == {n: d for n, d in DEFAULTS.items() if n not in of_loaders}
    keywords = {n: p.default for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert keywords == {n: one.default for n, one in added(AddedReaderKeywords).items()}


@LOADERS
def test_loader_signatures_have_every_keyword_with_its_default(make: Callable[..., Any]) -> None:
    keywords = {n: p.default for n, p in inspect.signature(make).parameters.items()}
    ours = {n: one.default for n, one in added(ReaderKeywords).items()}
    defaults = {**DEFAULTS, **ours}
    names = ReaderKeywords.__annotations__
    assert {n: keywords.get(n, "missing") for n in names} == {n: defaults[n] for n in names}


@pytest.mark.parametrize(
    ("make", "keywords"),
    [
        (make_reader, AddedReaderKeywords),
        (make_batch_reader, AddedReaderKeywords),
        (SparkDatasetConverter.make_torch_dataloader, ReaderKeywords),
        (SparkDatasetConverter.make_tf_dataset, ReaderKeywords),
    ],
)
def test_help_describes_each_added_keyword_once(make: Callable[..., Any], keywords: type) -> None:
    parameters, _, returned = (make.__doc__ or "").partition("\n\nReturns\n-------\n")
    for name in added(keywords):
        assert len(re.findall(rf"^{name} : .+\n    \S", parameters, re.MULTILINE)) == 1, name
    assert returned


@READERS
def test_readers_get_every_argument_unchanged(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopError(Exception):
        """Raised instead of opening a dataset."""

    found: dict[str, Any] = {}

    def noted(**arguments: Any) -> None:
        found.update(arguments)
        raise StopError

    monkeypatch.setattr(ReaderArguments, "of", noted)
    names = [n for n in inspect.signature(make).parameters if n != "pyarrow_serialize"][1:]
    given = {name: object() for name in names}
    with pytest.raises(StopError):
        make("file:///nowhere", **given)
    assert found == given
