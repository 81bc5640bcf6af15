"""Reading what a converter wrote by the URLs of its files."""

from __future__ import annotations

from typing import Any

from petastorm import make_batch_reader, make_reader
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from tests.conformance.place import Place
from tests.conformance.reading import CALM, batches

#: One pass in the order of the files.
ONCE = {"num_epochs": 1, "batch_size": 100, "reader_pool_type": "dummy"}


def _converter(spark: Any) -> SparkDatasetConverter:
    """Make one over two files of six rows together; the first program writes them."""
    return make_spark_converter(spark.range(0, 6, 1, 2).selectExpr("id", "id / 2.0D x"))


def _ids(urls: Any) -> list[int]:
    return sorted(int(id_) for batch in batches(urls) for id_ in batch.id)


def _with_torch(converter: SparkDatasetConverter, **arguments: Any) -> list[int]:
    with converter.make_torch_dataloader(**ONCE, **arguments) as loader:
        return sorted(id_ for batch in loader for id_ in batch["id"].tolist())


def _with_tf(converter: SparkDatasetConverter, **arguments: Any) -> list[int]:
    with converter.make_tf_dataset(**ONCE, **arguments) as dataset:
        return sorted(id_ for batch in dataset for id_ in batch.id.numpy().tolist())


def all_files(place: Place, spark: Any) -> Any:
    converter = _converter(spark)
    with make_batch_reader(converter.file_urls, **CALM) as reader:
        names, found = list(reader.schema.fields), list(reader)
    return [names, sorted(int(i) for b in found for i in b.id), [str(b.x.dtype) for b in found]]


def files_in_the_order_of_the_list(place: Place, spark: Any) -> Any:
    urls = _converter(spark).file_urls
    forth = [int(id_) for batch in batches(urls) for id_ in batch.id]
    back = [int(id_) for batch in batches(urls[::-1]) for id_ in batch.id]
    return [sorted(forth), back == forth[3:] + forth[:3]]


def a_file_twice(place: Place, spark: Any) -> Any:
    urls = _converter(spark).file_urls
    return len(_ids([urls[0], urls[0]]))


def files_in_the_row_reader(place: Place, spark: Any) -> Any:
    with make_reader(_converter(spark).file_urls, **CALM) as reader:
        return sorted(int(row.id) for row in reader)


def by_hand_without_a_directory(place: Place, spark: Any) -> Any:
    urls = _converter(spark).file_urls
    converter = SparkDatasetConverter(cache_dir_url=None, file_urls=urls, dataset_size=6)
    return [len(converter), _with_torch(converter), _with_tf(converter)]


def by_hand_over_some_of_the_files(place: Place, spark: Any) -> Any:
    converter = _converter(spark)
    found = []
    for url in converter.file_urls:
        half = SparkDatasetConverter(converter.cache_dir_url, [url], 3)
        found.append([_with_torch(half), _with_tf(half)])
    return sorted(found)


def by_hand_over_parquet(place: Place, spark: Any) -> Any:
    urls = place.files([2, 3])
    converter = SparkDatasetConverter(cache_dir_url=None, file_urls=urls, dataset_size=5)
    return [_with_torch(converter), _with_tf(converter), _ids(converter.file_urls)]


def shares_of_the_files(place: Place, spark: Any) -> Any:
    urls = _converter(spark).file_urls
    found = []
    for shard in range(2):
        arguments = {**CALM, "cur_shard": shard, "shard_count": 2}
        with make_batch_reader(urls, **arguments) as reader:
            found.append(sorted(int(id_) for batch in reader for id_ in batch.id))
    return sorted(found)
