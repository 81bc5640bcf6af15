"""Attributes of readers that programs use, and messages that they match."""

from typing import Any
from urllib.parse import urlparse

import numpy as np
from petastorm import make_batch_reader
from petastorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths
from petastorm.local_disk_cache import LocalDiskCache
from petastorm.predicates import in_lambda
from petastorm.unischema import Unischema, UnischemaField, match_unischema_fields
from tests.contract.conformance.describing import error_of, warnings_of
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM

_NO_DATA = "No matching data is available for loading"
_CHANGED = "schema_fields behavior has changed"


def _numbers(*names: str) -> Unischema:
    return Unischema("S", [UnischemaField(name, np.int32, (), None, False) for name in names])


def paths_of_files(place: Place) -> Any:
    urls = place.files([2, 3])
    with make_batch_reader(urls, **CALM) as reader:
        return [path in url for path, url in zip(reader.dataset.paths, urls, strict=True)]


def diagnostics_of_threads(place: Place) -> Any:
    with make_batch_reader(place.numbers(), reader_pool_type="thread") as reader:
        return list(reader.diagnostics)


def diagnostics_of_processes(place: Place) -> Any:
    found = []
    for copies in (True, False):
        arguments = {"reader_pool_type": "process", "workers_count": 1, "zmq_copy_buffers": copies}
        with make_batch_reader(place.numbers(), **arguments) as reader:
            found.append([sorted(reader.diagnostics), reader.diagnostics["zmq_copy_buffers"]])
            list(reader)
    return found


def no_warning_before_rows_are_filtered(place: Place) -> Any:
    url, predicate = place.numbers(), in_lambda(["id"], lambda id_: id_ > 77)
    return warnings_of(lambda: make_batch_reader(url, predicate=predicate, **CALM), _NO_DATA)


def beginnings_of_names(place: Place) -> Any:
    schema, found = _numbers("int32", "uint8", "uint16"), {}
    for patterns in (["uint"], ["uint8"], ["int", "uint8", "uint16", "int32"], ["uint1.*", "ui"]):
        fragments = [_CHANGED, "uint16, uint8", "int32"]
        found[" ".join(patterns)] = warnings_of(
            lambda patterns=patterns: match_unischema_fields(schema, patterns), *fragments
        )
    return found


def a_cache_that_is_too_small(place: Place) -> Any:
    text = "Condition 'size_limit_bytes / shards < 5 * expected_row_size_bytes' needs to hold"
    location = str(place.folder / "cache")
    return [
        error_of(lambda: LocalDiskCache(location, 1000, 500, shards=1), text),
        error_of(lambda: LocalDiskCache(location, 5000, 200, shards=10), text),
    ]


def an_error_while_a_cache_is_cleaned_up(place: Place) -> Any:
    arguments = {
        "cache_type": "local-disk",
        "cache_location": str(place.folder / "cache"),
        "cache_size_limit": 10**7,
        "cache_row_size_estimate": 100,
    }

    def fail() -> None:
        raise OSError("my own")

    with make_batch_reader(place.numbers(), **CALM, **arguments) as reader:
        found = [batch.id.tolist() for batch in reader]
        reader.cache.cleanup = fail
        reader.cleanup_cache()
    return found


def a_cache_whose_directory_is_gone(place: Place) -> Any:
    cache = LocalDiskCache(str(place.folder / "cache"), 10**6, 4, cleanup=True)
    found = cache.get("key", lambda: 3)
    return [found, cache.cleanup(), cache.cleanup()]


def urls_without_a_bucket(place: Place) -> Any:
    text = "URLs must be of the form"
    found = {}
    for url in ("s3:///x", "s3a:///x", "gs:///x", "gcs:///x"):
        found[url] = [
            error_of(lambda url=url: FilesystemResolver(url), text),
            error_of(lambda url=url: get_filesystem_and_path_or_paths(url), text),
            error_of(lambda url=url: make_batch_reader(url), text),
        ]
    return found


def urls_in_parts(place: Place) -> Any:
    resolver = FilesystemResolver(urlparse("file:///a/b"))
    return [
        resolver.get_dataset_path(),
        resolver.parsed_dataset_url().scheme,
        error_of(lambda: FilesystemResolver(urlparse("unknown://a/b"))),
        error_of(lambda: FilesystemResolver(urlparse("s3:///a/b")), "URLs must be of the form"),
    ]


def hdfs_that_is_not_configured(place: Place) -> Any:
    return [
        error_of(lambda: FilesystemResolver("hdfs:///x").filesystem()),
        error_of(lambda: get_filesystem_and_path_or_paths("hdfs:///x")),
        error_of(lambda: make_batch_reader("hdfs:///x")),
    ]


def a_schema_of_columns_that_have_no_field(place: Place) -> Any:
    url = place.parquet({"id": [1], "pair": [{"a": 1}]})
    with make_batch_reader(url, schema_fields=["id"], **CALM) as reader:
        dataset = reader.dataset
    return [
        list(Unischema.from_arrow_schema(dataset).fields),
        error_of(
            lambda: Unischema.from_arrow_schema(dataset, omit_unsupported_fields=False),
            "Cannot auto-create unischema due to unsupported column type",
        ),
    ]
