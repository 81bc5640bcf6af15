"""An optional dependency, and imports that are only for type checkers."""
from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from petastorm.spark import SparkDatasetConverter, make_spark_converter
except ImportError:  # pragma: no cover
    make_spark_converter = None

if TYPE_CHECKING:
    from petastorm.reader import Reader

__all__ = ["convert", "main"]


def convert(df) -> "SparkDatasetConverter":
    return make_spark_converter(df)


def rows(reader: "Reader") -> int:
    return sum(1 for _ in reader)


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    conv = convert(spark.range(7))  # type: SparkDatasetConverter
    return [len(conv), conv.dataset_size, rows(iter("abc"))]
