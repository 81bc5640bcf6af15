"""Measure how fast a dataset is read: a command, as in Petastorm.

``python -m mdstorm.benchmark.cli DATASET_URL …``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mdstorm.benchmark.throughput import ReadMethod, WorkerPoolType, reader_throughput

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run `reader_throughput` with the arguments of a command line, and print the result."""
    given = vars(_parser().parse_args(argv))
    del given["v"]
    found = reader_throughput(**given)
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
    add("dataset_url", metavar="dataset_path", help="URL of the dataset's directory")
    add("--field-regex", nargs="+", help="read the fields whose whole name matches one of these")
    for short, name, argument, default, help_ in (
        ("-w", "--workers-count", "loaders_count", 3, "workers of the reader"),
        ("-m", "--warmup-cycles", "warmup_cycles_count", 200, "rows to read before measuring"),
        ("-n", "--measure-cycles", "measure_cycles_count", 1000, "rows to read while measuring"),
        ("-q", "--shuffling-queue-size", "shuffling_queue_size", 500, "for the read method tf"),
    ):
        add(short, name, dest=argument, type=int, default=default, help=help_)
    for short, name, chosen, help_ in (
        ("-p", "--pool-type", WorkerPoolType.THREAD, "where it reads"),
        ("-d", "--read-method", ReadMethod.PYTHON, "what takes the rows"),
    ):
        kind = type(chosen)
        add(short, name, type=kind, choices=list(kind), default=chosen, help=help_)
    add("--min-after-dequeue", type=int, help="for the read method tf; 80 %% of the queue")
    add("--profile-threads", action="store_true", help="not used")
    add("-v", "-vv", action="store_true", help="not used")
    return parser


if __name__ == "__main__":
    main()
