from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    from petastorm.reader import Reader
    from petastorm.spark.spark_dataset_converter import SparkDatasetConverter


def rows(reader: Reader) -> Iterator[Any]:
    for r in reader:
        yield r._asdict()


def size(c: "SparkDatasetConverter") -> "int":
    return len(c)


class Holder:
    reader: "Reader | None" = None
    converters: "dict[str, SparkDatasetConverter]" = {}


def main(spark, directory):
    from petastorm.reader import make_batch_reader
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    with make_batch_reader("file://" + directory + "/t") as r:
        return {k: v.tolist() for row in rows(r) for k, v in row.items()}
