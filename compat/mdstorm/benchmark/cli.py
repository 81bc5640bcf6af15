"""Measure how fast a dataset is read: a command, as in Petastorm.

``python -m mdstorm.benchmark.cli DATASET_URL …``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mdstorm.benchmark.throughput import ReadMethod, WorkerPoolType, reader_throughput

__all__ = ["main"]

#: Rows that stay in the shuffling queue, as a share of its size.
_MIN_AFTER_DEQUEUE = 0.8


def main(argv: Sequence[str] | None = None) -> None:
    """Run `reader_throughput` with the arguments of a command line, and print the result."""
    given = _parser().parse_args(argv)
    least = given.min_after_dequeue
    found = reader_throughput(
        given.dataset_path,
        given.field_regex,
        warmup_cycles_count=given.warmup_cycles,
        measure_cycles_count=given.measure_cycles,
        pool_type=given.pool_type,
        loaders_count=given.workers_count,
        read_method=given.read_method,
        shuffling_queue_size=given.shuffling_queue_size,
        min_after_dequeue=int(_MIN_AFTER_DEQUEUE * given.shuffling_queue_size)
        if least is None
        else least,
    )
    print(
        f"Average sample read rate: {found.samples_per_second:1.2f} samples/sec; "
        f"RAM {found.memory_info.rss / 2**20:1.2f} MB (rss); CPU {found.cpu:1.2f}%"
    )


#: Petastorm's name of it, by which programs call it with arguments of their own.
_main = main


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="throughput",
        description="Measure how fast make_reader reads a dataset.",
        epilog="Example: python -m mdstorm.benchmark.cli file:///data/all --workers-count 4",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("dataset_path", help="URL of the dataset's directory")
    add("--field-regex", nargs="+", help="read the fields whose whole name matches one of these")
    add("-w", "--workers-count", type=int, default=3, help="workers of the reader")
    add(
        "-p",
        "--pool-type",
        type=WorkerPoolType,
        choices=list(WorkerPoolType),
        default=WorkerPoolType.THREAD,
        help="where it reads",
    )
    add("-m", "--warmup-cycles", type=int, default=200, help="rows to read before measuring")
    add("-n", "--measure-cycles", type=int, default=1000, help="rows to read while measuring")
    add("--profile-threads", action="store_true", help="not used")
    add(
        "-d",
        "--read-method",
        type=ReadMethod,
        choices=list(ReadMethod),
        default=ReadMethod.PYTHON,
        help="what takes the rows",
    )
    add("-q", "--shuffling-queue-size", type=int, default=500, help="for the read method tf")
    add("--min-after-dequeue", type=int, help="for the read method tf")
    add("-v", "-vv", action="store_true", help="not used")
    return parser


if __name__ == "__main__":
    main()
