"""The smaller modules: file systems, caches, mocks, and several readers at once."""

import inspect
from typing import Any
from unittest import mock

import numpy as np
from petastorm import make_batch_reader
from petastorm.cache import CacheBase, NullCache
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url
from petastorm.etl.rowgroup_indexers import FieldNotNullIndexer, SingleFieldIndexer
from petastorm.fs_utils import (
    FilesystemResolver,
    get_filesystem_and_path_or_paths,
    normalize_dir_url,
)
from petastorm.reader import normalize_dataset_url_or_urls
from petastorm.unischema import Unischema, UnischemaField
from petastorm.utils import run_in_subprocess
from petastorm.weighted_sampling_reader import WeightedSamplingReader
from tests.contract.conformance.describing import error_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM

_SCHEMA = Unischema("Sch", [UnischemaField("id", np.int64, (), None, False)])


def urls_lose_a_slash(place: Place) -> Any:
    return [
        normalize_dir_url("file:///a/b/"),
        normalize_dataset_url_or_urls("file:///a/"),
        normalize_dataset_url_or_urls(["file:///a/", "file:///b"]),
        error_of(lambda: normalize_dir_url(None), "must be a string"),
    ]


def urls_without_a_scheme(place: Place) -> Any:
    return [
        error_of(lambda: FilesystemResolver("/a/b"), "ERROR! A scheme-less dataset url ("),
        error_of(lambda: get_filesystem_and_path_or_paths("/a/b")),
    ]


def a_cache_that_keeps_nothing(place: Place) -> Any:
    cache, made = NullCache(), []
    found = [cache.get("key", lambda: made.append(1) or len(made)) for _ in range(2)]
    return [found, issubclass(NullCache, CacheBase)]


def indexers_know_their_names(place: Place) -> Any:
    found = [SingleFieldIndexer("one", "id"), FieldNotNullIndexer("two", "id")]
    return [[indexer.index_name, sorted(indexer.column_names)] for indexer in found]


def functions_run_in_processes(place: Place) -> Any:
    return [run_in_subprocess(max, 3, 5), error_of(lambda: run_in_subprocess(int, "x"))]


def _weighted(readers: list[Any], weights: list[float]) -> WeightedSamplingReader:
    # Petastorm 0.13.1 uses `np.float`, which NumPy no longer has.
    with mock.patch.object(np, "float", float, create=True):
        return WeightedSamplingReader(readers, weights)


def one_of_two_readers_is_certain(place: Place) -> Any:
    url = place.numbers(4)
    one, other = (make_batch_reader(url, **CALM) for _ in range(2))
    with _weighted([one, other], [1.0, 0.0]) as reader:
        found = [batch.id.tolist() for batch in reader]
        return [found, reader.batched_output, list(reader.schema.fields), reader.last_row_consumed]


def signatures(place: Place) -> Any:
    from petastorm.etl.dataset_metadata import materialize_dataset
    from petastorm.etl.petastorm_generate_metadata import generate_petastorm_metadata
    from petastorm.etl.rowgroup_indexing import build_rowgroup_index
    from petastorm.spark_utils import dataset_as_rdd

    functions = [
        materialize_dataset,
        generate_petastorm_metadata,
        build_rowgroup_index,
        dataset_as_rdd,
        get_schema_from_dataset_url,
    ]
    return {
        function.__name__: [
            [p.name, None if p.default is p.empty else repr(p.default)]
            for p in inspect.signature(function).parameters.values()
            if p.kind is not p.KEYWORD_ONLY  # only mdstorm has keyword-only arguments
        ]
        for function in functions
    }
