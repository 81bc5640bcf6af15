"""Show the schema and the row group indexes of a dataset: a command, as in Petastorm.

``python -m mdstorm.etl.metadata_util --dataset-url …``
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from mdstorm.etl.dataset_metadata import get_schema_from_dataset_url
from mdstorm.etl.rowgroup_indexing import get_row_group_indexes

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises
    ------
    PetastormMetadataError
        If the dataset has no schema.
    InvalidArgumentError
        If it has no indexes; also ValueError.
    """
    parser = argparse.ArgumentParser(
        prog="metadata_util",
        description="Show the schema and the row group indexes of a dataset.",
        epilog="Example: python -m mdstorm.etl.metadata_util"
        " --dataset-url file:///data/all --schema",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--dataset-url", required=True, help="directory of the dataset")
    parser.add_argument("--schema", action="store_true", help="show the schema only")
    parser.add_argument("--index", action="store_true", help="show the row group indexes only")
    parser.add_argument(
        "--print-values", action="store_true", help="show the row groups of each value, too"
    )
    parser.add_argument("--skip-index", nargs="+", default=(), help="indexes to name only")
    parser.add_argument("--hdfs-driver", default="libhdfs3", help="not used")
    given = parser.parse_args(argv)
    if given.schema or not given.index:
        print("*** Schema from dataset metadata ***")
        print(get_schema_from_dataset_url(given.dataset_url))
    if given.index or not given.schema:
        print("*** Row group indexes from dataset metadata ***")
        _print_indexes(given.dataset_url, given.skip_index, with_numbers=given.print_values)


def _print_indexes(url: str, skipped: Collection[str], *, with_numbers: bool) -> None:
    for name, index in get_row_group_indexes(url).items():
        print(f"Index: {name}")
        if name in skipped:
            print("  (skipped)")
            continue
        for value in index.indexed_values:
            numbers = index.get_row_group_indexes(value)
            print(f"  -- {value}({len(numbers)})")
            if with_numbers:
                print(numbers)


if __name__ == "__main__":
    main()
