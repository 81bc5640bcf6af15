"""Read datasets as RDDs of decoded rows, mirroring ``petastorm.spark_utils``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdstorm._datasets import checked_urls, opened
from mdstorm._petastorm_names import other_names
from mdstorm._rows import rows_of
from mdstorm.errors import UnsupportedArgumentError
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend.kinds import open_stored

__all__ = ["dataset_as_rdd"]

__getattr__ = other_names(__name__)


def dataset_as_rdd(
    dataset_url: str,
    spark_session: Any,
    schema_fields: Sequence[UnischemaField | str] | None = None,
    hdfs_driver: str = "libhdfs3",
) -> Any:
    """Return the rows of a Petastorm or MDS dataset as an RDD of namedtuples.

    The executors read the dataset, with one partition per row group or shard. They need to have
    mdstorm installed and access to the storage.

    Parameters
    ----------
    dataset_url : str
        Directory of the dataset.
    spark_session : pyspark.sql.SparkSession
        A classic session.
    schema_fields : sequence of UnischemaField or str, optional
        Fields to read, or regular expressions that match full names; all fields by default.
    hdfs_driver : str
        Not used.

    Returns
    -------
    pyspark.RDD
        The same rows as from `make_reader`.

    Raises
    ------
    UnsupportedArgumentError
        If the session does not support RDDs (Spark Connect, serverless or shared compute); also
        NotImplementedError.
    """
    try:
        parallelize = spark_session.sparkContext.parallelize
    except Exception as error:  # each kind of session without RDDs raises a different error
        raise UnsupportedArgumentError(
            "dataset_as_rdd needs a classic Spark session: Spark Connect, serverless and shared "
            "compute have no RDDs. Read the dataset with make_reader, or the Parquet files with "
            "spark.read.parquet(…)"
        ) from error
    found = opened(open_stored(checked_urls(dataset_url)))
    schema = found.unischema
    if schema_fields is not None:
        schema = schema.create_schema_view(schema_fields)
    numbers = range(len(found.source.shard_sizes))
    read = partial(_rows, dataset_url, schema)
    return parallelize(numbers, max(len(numbers), 1)).mapPartitions(read)


def _rows(url: str, schema: Unischema, numbers: Iterator[int]) -> Iterator[Any]:
    source = opened(open_stored(url)).source
    names = tuple(schema.fields)
    for number in numbers:
        shard = source.shard(number)
        batch = shard.read(np.arange(shard.num_samples), names)
        yield from rows_of(batch, schema._get_namedtuple(), source.schema.get)
