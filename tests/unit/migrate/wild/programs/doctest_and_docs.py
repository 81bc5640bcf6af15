"""Readers for humans.

Based on petastorm. Install it with ``pip install petastorm==0.11.4``.

>>> from petastorm import make_batch_reader
>>> with make_batch_reader('file:///tmp/x') as r:   # doctest: +SKIP
...     print(next(r))
"""
from petastorm import (  # pylint: disable=import-error
    make_batch_reader,  # the petastorm one
    TransformSpec,
)  # noqa: F401

__all__ = ["make_batch_reader", "rows"]


def rows(url):
    """Rows of a dataset. See :func:`petastorm.make_batch_reader`.

    from petastorm import make_reader would not work here
    """
    with make_batch_reader(url) as r: return sum(len(b[0]) for b in r)


def main(spark, directory):
    spark.range(0, 9, 1, 1).write.parquet(directory + "/t")
    return rows("file://" + directory + "/t")
