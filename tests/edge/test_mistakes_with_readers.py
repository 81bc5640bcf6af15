"""The messages for common mistakes with readers, predicates and transforms name the remedy."""

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.kit.mistakes import Row, beside, mistakes_test

import mdstorm
from mdstorm import ngram, predicates, pytorch
from mdstorm.selectors import SingleIndexSelector, UnionIndexSelector
from mdstorm.spark import make_spark_converter
from mdstorm.tf_utils import make_petastorm_dataset, tf_tensors
from mdstorm.weighted_sampling_reader import WeightedSamplingReader
from mdstorm_backend import StreamingDataLoader

#: Untyped, because type checkers would report many of these mistakes first.
reader: Any = mdstorm.make_batch_reader
row_reader: Any = mdstorm.make_reader
converter: Any = make_spark_converter
TransformSpec: Any = mdstorm.TransformSpec
NGram: Any = ngram.NGram
by: Any = predicates
torch: Any = pytorch


def rows(parquet: str, **arguments: Any) -> Any:
    with row_reader(parquet, **arguments) as found:
        return list(found)


def ngrams(parquet: str, field: str, timestamp: str, **arguments: Any) -> Any:
    fields = NGram({0: [field], 1: ["id"]}, 1, timestamp)
    return rows(parquet, schema_fields=fields, **arguments)


def selecting(parquet: str, *names: str) -> Any:
    with pytest.warns(UserWarning, match="will be ignored: idd: did you mean id?"):
        return reader(parquet, transform_spec=TransformSpec(selected_fields=list(names)))


def loaded(parquet: str, **arguments: Any) -> Any:
    return torch.DataLoader(reader(parquet), **arguments)


def in_memory(parquet: str, **arguments: Any) -> Any:
    return torch.InMemBatchedDataLoader(reader(parquet, num_epochs=1), **arguments)


def sampled(urls: list[str], weights: list[Any]) -> Any:
    return WeightedSamplingReader(list(map(reader, urls)), weights)


def one(row: Any) -> Any:
    return {"id": row["id"]}


def more(row: Any) -> Any:
    return {**row, "q": 1}


def three(row: Any) -> Any:
    return {**row, "id": np.ones(3)}


IN_CACHE: Any = {"cache_type": "local-disk", "cache_location": "/tmp", "cache_size_limit": 9}
#: A transform that declares two-element arrays but returns three-element arrays.
PAIR = TransformSpec(three, [("id", np.int64, (2,), False)])


def batch_of_a_stopped_reader(parquet: str) -> Any:
    with reader(parquet) as stopped:
        pass
    return next(stopped)


#: Each row has an invalid call (given a Parquet and an MDS URL), its built-in error and message.
MISTAKES: list[Row] = [
    # URLs and storage
    (lambda p, m: row_reader("data"), ValueError, 'prepend "file://"'),
    (lambda p, m: reader(None), ValueError, "must be a string, found None"),
    (lambda p, m: reader([]), ValueError, "must be non-empty"),
    (lambda p, m: reader(dataset_url=p), TypeError, "'dataset_url': use dataset_url_or_urls"),
    (lambda p, m: row_reader(dataset_url_or_urls=p), TypeError, "_or_urls': use dataset_url"),
    (
        lambda p, m: reader(p, num_epochs=0),
        ValueError,
        "positive integer or None, found num_epochs",
    ),
    (lambda p, m: reader("foo://x/y"), ValueError, "another scheme"),
    (lambda p, m: reader("file:///nope"), OSError, "neither a Parquet file nor a dir"),
    (lambda p, m: reader(beside(p, "loop")), OSError, "correct the path or the links in it"),
    (lambda p, m: reader(f"{p}/{'a' * 300}"), OSError, "name too long"),
    (lambda p, m: reader(p, cache_type="disk"), ValueError, "'local-disk'"),
    (lambda p, m: reader(["data/a.parquet"]), ValueError, "(data/a.parquet) is no"),
    (lambda p, m: reader([p, "s3://b/x"]), ValueError, "same scheme and netloc"),
    (lambda p, m: reader([p, m]), ValueError, "belongs to an MDS dataset"),
    (lambda p, m: reader(f"{m}/a.mds"), ValueError, "is not one of the 1 shards"),
    (lambda p, m: reader(beside(p, "empty")), OSError, "has no Parquet files"),
    (lambda p, m: reader(beside(p, "csv")), ValueError, "csv is not a Parquet file"),
    (lambda p, m: reader(beside(p, "feather")), ValueError, "a.feather is not a Parquet file, as"),
    (lambda p, m: reader(beside(p, "images")), ValueError, "1.JPG is an image, as its name shows"),
    (lambda p, m: reader("~/data"), ValueError, "write file:///"),
    (lambda p, m: reader("C:\\data"), ValueError, "Windows path, which is not supported"),
    (lambda p, m: reader("a.b.c"), OSError, "use make_spark_converter(spark.table('a.b.c'))"),
    (lambda p, m: reader(p, schema_fields=["idd"]), RuntimeError, "'s']: did you mean id?"),
    (lambda p, m: reader(p, schema_fields=["*"]), ValueError, "write '.*'"),
    (lambda p, m: reader(p, schema_fields=["*_id"]), ValueError, "write '.*_id'"),
    (lambda p, m: reader(p, schema_fields=["(x"]), ValueError, r"write '\\(x'"),
    (lambda p, m: reader(p, batch_size=3), TypeError, "made by the loader"),
    (lambda p, m: reader(p, skip_batches=[3]), TypeError, "load_state_dict(state, skip_batches=)"),
    (
        lambda p, m: reader(
            beside(p, "times"), where=pc.field("t") > pa.scalar(datetime(2026, 1, 1))
        ),
        ValueError,
        "where=(t > 2026-01-01 00:00:00.000000) cannot be evaluated over",
    ),
    (lambda p, m: reader(p, filesystem="s3"), TypeError, "fsspec.filesystem('s3')"),
    (lambda p, m: reader(p, storage_options="a=b"), TypeError, "options must be a dict"),
    (lambda p, m: reader(p, version=3), ValueError, "Iceberg table: leave out version="),
    # creating functions and predicates
    (lambda p, m: TransformSpec(3), TypeError, "func must be a function, found 3"),
    (lambda p, m: TransformSpec(removed_fields="x"), TypeError, "removed_fields must be a list"),
    (
        lambda p, m: TransformSpec(removed_fields=["x"], selected_fields=["s"]),
        ValueError,
        "not both",
    ),
    (lambda p, m: selecting(p, "idd"), RuntimeError, "edit_fields adds: did you mean id? Choose"),
    (lambda p, m: TransformSpec(len, [("y", "f4")]), ValueError, "by edit_field(name,"),
    (lambda p, m: TransformSpec(len, ("y", "f4", (), False)), ValueError, "edit_fields holds 'y'"),
    (lambda p, m: TransformSpec(len, [("y", "f4", 3, False)]), ValueError, "the shape of a scalar"),
    (lambda p, m: by.in_lambda("id", bool), ValueError, "should be a list, found 'id'"),
    (lambda p, m: by.in_lambda(["id"], 3), TypeError, "predicate_func must be a function"),
    (lambda p, m: by.in_set("abc", "s"), TypeError, "found 'abc': put it in a list"),
    (lambda p, m: by.in_set(3, "id"), TypeError, "inclusion_values must be a list, found 3"),
    (lambda p, m: by.in_reduce([bool], all), ValueError, "Wrap a function in in_lambda"),
    (lambda p, m: by.in_reduce([by.in_set([1], "id")], 3), TypeError, "reduce_func must be a func"),
    (lambda p, m: by.in_negate("id > 3"), ValueError, "nor derived from PredicateBase: 'id > 3'"),
    (lambda p, m: by.in_pseudorandom_split([80, 20], 0, "id"), ValueError, "such as [0.8, 0.2]"),
    (lambda p, m: by.in_pseudorandom_split(0.8, 0, "id"), TypeError, "fraction_list must be a lis"),
    (lambda p, m: reader(p, predicate=by.in_set([1], "no")), ValueError, "predicate (no)"),
    (lambda p, m: reader(p, rowgroup_selector="i"), ValueError, "one of mdstorm.selectors"),
    (lambda p, m: rows(p, rowgroup_selector=SingleIndexSelector("i", [1])), ValueError, "build it"),
    (
        lambda p, m: UnionIndexSelector([3]),
        ValueError,
        "a list of at least one selector, found [3]",
    ),
    (lambda p, m: rows(p, transform_spec=TransformSpec(print)), TypeError, "by returning the row"),
    (lambda p, m: rows(p, transform_spec=TransformSpec(one)), ValueError, "a row without ['s', 'x"),
    (lambda p, m: rows(p, transform_spec=TransformSpec(more)), TypeError, "keyword argument 'q'"),
    (lambda p, m: rows(p, transform_spec=PAIR), ValueError, "must be the shape (2,), found (3,)"),
    # n-grams
    (lambda p, m: NGram({"a": ["id"]}, 1, "id"), ValueError, "are integers; found 'a'"),
    (lambda p, m: ngrams(p, "id", "ts"), ValueError, "'ts' matches [] of ['id', 'x', 's']"),
    (lambda p, m: ngrams(p, "no", "id"), ValueError, "'no', which matches none of ['id', 'x', 's'"),
    (lambda p, m: ngrams(p, "id", "s"), ValueError, "pass a field of numbers or times"),
    (lambda p, m: ngrams(p, "id", "id", shuffle_rows=True), RuntimeError, "leave out shuffle_rows"),
    (lambda p, m: ngrams(p, "id", "id", order="elastic"), RuntimeError, "shuffle_rows and order"),
    (lambda p, m: ngrams(p, "id", "id", cur_shard="auto"), RuntimeError, "cannot be combined with"),
    (
        lambda p, m: ngrams(p, "id", "id", files={"f": "s"}),
        RuntimeError,
        "files= cannot be combined",
    ),
    (lambda p, m: rows(p, order="elastic", **IN_CACHE), RuntimeError, "with order='elastic'"),
    (lambda p, m: reader(p, schema_fields=NGram({0: []}, 1, "id")), RuntimeError, "use make"),
    # loaders over readers
    (lambda p, m: torch.DataLoader(reader(p), collate_fn=3), TypeError, "collate_fn must be a"),
    (lambda p, m: list(torch.BatchedDataLoader(reader(p))), TypeError, "Leave it out with"),
    (lambda p, m: sampled([p], [1]), ValueError, "Iterate over a single reader"),
    (lambda p, m: sampled([p, p], [1]), ValueError, "the same length, found 2 and 1"),
    (lambda p, m: sampled([p, beside(p, "others")], [1, 1]), ValueError, "common ones with schema"),
    (lambda p, m: torch.DataLoader(p), TypeError, "make_batch_reader(url)"),
    (lambda p, m: torch.DataLoader(converter(m)), TypeError, "make_torch_dataloader"),
    (lambda p, m: make_petastorm_dataset(converter(m)), TypeError, "make_tf_dataset"),
    (lambda p, m: tf_tensors(p), TypeError, "is not a reader: create one with make_reader"),
    (lambda p, m: sampled([p, p], ["a", 0.5]), ValueError, "a positive sum, found ['a', 0.5]"),
    (lambda p, m: loaded(p, shuffle=True), TypeError, "pass shuffle_rows=True to the reader"),
    (lambda p, m: loaded(p, num_workers=2), TypeError, "pass workers_count to the reader"),
    (lambda p, m: loaded(p, drop_last=True), TypeError, "skip it in your loop"),
    (lambda p, m: loaded(p, pin_memory=True), TypeError, "call the tensors' pin_memory()"),
    (lambda p, m: loaded(p, sampler=[1]), TypeError, "pass shuffle_rows, shuffle_row_groups, cur_"),
    (lambda p, m: loaded(p, batchsize=2), TypeError, "'batchsize': did you mean batch_size?"),
    (lambda p, m: in_memory(p, shuffle="False"), TypeError, "must be True or False, found 'False'"),
    (lambda p, m: StreamingDataLoader(reader(p)), TypeError, "create mdstorm.pytorch.DataLoader("),
    (lambda p, m: WeightedSamplingReader([p, p], [0.5, 0.5]), TypeError, "make_batch_reader(url)"),
    # calls at the wrong time
    (lambda p, m: batch_of_a_stopped_reader(p), RuntimeError, "inside of the with statement"),
    (lambda p, m: reader(p).load_state_dict({}), ValueError, "the whole dict returned by"),
]


test_a_mistake_raises_an_error_with_its_remedy = mistakes_test(MISTAKES)


@pytest.mark.parametrize(
    ("name", "message"), [("idd", ": did you mean id"), ("price", r": choose among \['id'")]
)
def test_name_of_no_column_among_others_warns(
    where: tuple[str, str], name: str, message: str
) -> None:
    with (
        pytest.warns(UserWarning, match=f"no column matches {name!r}{message}"),
        reader(where[0], schema_fields=["x", name]) as found,
    ):
        assert next(found)._fields == ("x",)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("other.*", {}),  # an expression may match the columns of another dataset
        ("number", {"row_numbers": "number"}),
        ("x_is_null", {"null_masks": ["x"]}),
    ],
)
def test_expression_or_name_of_made_column_does_not_warn(
    where: tuple[str, str], name: str, options: dict[str, Any]
) -> None:
    with reader(where[0], schema_fields=["x", name], **options) as found:
        assert next(found)._fields == ("x", *(name for _ in options))
