"""Measure mdstorm, Petastorm and MosaicML Streaming, and compare the figures with the targets.

    python benchmarks/run.py [--rounds 3] [--batch-size 1024] [--rows 500000]

Each library runs in its own processes and environment, one after the other, round by round, so that
a slow period on the machine affects all of them. Writes `results.json` next to this file, or
`--output`. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from comparison import HERE, Target, compare, measure, prepared
from sizes import size
from table import ROWS

LIBRARIES = ("mdstorm", "petastorm", "mosaic")

TARGETS = (
    Target(
        "write, against Petastorm's Parquet",
        "mdstorm.materialize_second_s",
        "petastorm.materialize_second_s",
        1,
    ),
    Target(
        "write, against dataframe_to_mds",
        "mdstorm.materialize_second_s",
        "mosaic.materialize_second_s",
        10,
    ),
    Target(
        "torch in order, against BatchedDataLoader",
        "mdstorm.torch_rows_per_s.in_order",
        "petastorm.torch_rows_per_s.batched",
        3,
    ),
    Target(
        "the same over ten epochs",
        "mdstorm.torch_rows_per_s.in_order_long",
        "petastorm.torch_rows_per_s.batched_long",
        None,
    ),
    Target(
        "torch in order, against DataLoader",
        "mdstorm.torch_rows_per_s.in_order",
        "petastorm.torch_rows_per_s.row_by_row",
        100,
    ),
    Target(
        "torch in order, against StreamingDataLoader",
        "mdstorm.torch_rows_per_s.in_order",
        "mosaic.torch_rows_per_s.in_order",
        500,
    ),
    Target(
        "torch shuffled over the epoch, against BatchedDataLoader with 100,000 rows",
        "mdstorm.torch_rows_per_s.shuffled",
        "petastorm.torch_rows_per_s.batched_shuffled",
        8,
    ),
    Target(
        "torch shuffled over the epoch, against StreamingDataLoader",
        "mdstorm.torch_rows_per_s.shuffled",
        "mosaic.torch_rows_per_s.shuffled",
        None,
    ),
    Target(
        "tf.data, against make_tf_dataset",
        "mdstorm.tf_rows_per_s",
        "petastorm.tf_rows_per_s",
        20,
    ),
    Target(
        "torch in order from Parquet, against BatchedDataLoader",
        "mdstorm.parquet_torch_rows_per_s.in_order",
        "petastorm.torch_rows_per_s.batched",
        1,
    ),
    Target(
        "torch from Parquet, both shuffled with 100,000 rows",
        "mdstorm.parquet_torch_rows_per_s.shuffled",
        "petastorm.torch_rows_per_s.batched_shuffled",
        2,
    ),
    Target(
        "tf.data from Parquet, against make_tf_dataset",
        "mdstorm.parquet_tf_rows_per_s",
        "petastorm.tf_rows_per_s",
        20,
    ),
    Target(
        "torch in order after tf.data in the same process, against without",
        "mdstorm.torch_after_tf_rows_per_s.in_order",
        "mdstorm.torch_rows_per_s.in_order",
        0.95,
    ),
    Target(
        "torch shuffled after tf.data in the same process, against without",
        "mdstorm.torch_after_tf_rows_per_s.shuffled",
        "mdstorm.torch_rows_per_s.shuffled",
        0.95,
    ),
    Target("import mdstorm", "mdstorm.import_s", None, 0.15),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=size(3, 1))
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--output", type=Path, default=HERE / "results.json")
    options = parser.parse_args()

    libraries = prepared(LIBRARIES, "petastorm", "mosaic")
    settings = {"batch_size": options.batch_size, "rows": options.rows}
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    rounds = []
    for number in range(1, options.rounds + 1):
        one = {}
        for library in libraries:
            print(f"round {number} of {options.rounds}: {library}", file=sys.stderr, flush=True)
            one[library] = measure(library, f"measure_{library}.py", *arguments)
        rounds.append(one)
    return 0 if compare(rounds, TARGETS, options.output, **settings) else 1


if __name__ == "__main__":
    sys.exit(main())
