"""Module names in strings, and strings that only look like module names."""
import logging
from unittest import mock

from petastorm.spark import make_spark_converter

KEY = "petastorm.spark.converter.parentCacheDirUrl"


def run(df):
    from petastorm import spark as ps

    return ps.make_spark_converter(df)


def main(spark, directory):
    logging.getLogger("petastorm").setLevel(logging.ERROR)
    spark.conf.set("petastorm.spark.converter.parentCacheDirUrl", "file://" + directory)
    with mock.patch("petastorm.spark.make_spark_converter") as fake:
        run(None)
    engine = "petastorm" if fake.called else "arrow"     # a project value
    here = "/mnt/petastorm_cache"                        # a path
    return [fake.call_count, engine, here, len(make_spark_converter(spark.range(4)))]
