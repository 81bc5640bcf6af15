"""Reading a converter's files by their URLs."""

from typing import Any

from petastorm import make_batch_reader, make_reader
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import CALM, batches


def _converter(spark: Any) -> SparkDatasetConverter:
    """Return a converter over two files with six rows in total, which the first call writes."""
    return make_spark_converter(spark.range(0, 6, 1, 2).selectExpr("id", "id / 2.0D x"))


def all_files(place: Place, spark: Any) -> Any:
    converter = _converter(spark)
    with make_batch_reader(converter.file_urls, **CALM) as reader:
        names, found = list(reader.schema.fields), list(reader)
    return [names, sorted(int(i) for b in found for i in b.id), [str(b.x.dtype) for b in found]]


def a_file_twice(place: Place, spark: Any) -> Any:
    urls = _converter(spark).file_urls
    return sum(len(batch.id) for batch in batches([urls[0], urls[0]]))


def files_in_the_row_reader(place: Place, spark: Any) -> Any:
    with make_reader(_converter(spark).file_urls, **CALM) as reader:
        return sorted(int(row.id) for row in reader)


def shares_of_the_files(place: Place, spark: Any) -> Any:
    urls = _converter(spark).file_urls
    found = []
    for shard in range(2):
        arguments = {**CALM, "cur_shard": shard, "shard_count": 2}
        with make_batch_reader(urls, **arguments) as reader:
            found.append(sorted(int(id_) for batch in reader for id_ in batch.id))
    return sorted(found)
