"""Reads datasets with MosaicML Streaming once per hash, which it checks, and counts the samples.

    validate.py CACHE_DIR HASH,… DATASET_DIR…

Prints the counts by hash of every dataset as JSON. A hash that is wrong ends an epoch early.
"""

import json
import sys
from pathlib import Path

from streaming import StreamingDataset


def count(dataset_dir: str, cache: Path, name: str) -> int:
    dataset = StreamingDataset(
        remote=dataset_dir,
        local=str(cache / name),
        batch_size=1,
        predownload=100,
        validate_hash=name,
    )
    return sum(1 for _ in dataset)


def main() -> None:
    caches, hashes, *dataset_dirs = sys.argv[1:]
    counts = [
        {name: count(dataset_dir, Path(caches, str(number)), name) for name in hashes.split(",")}
        for number, dataset_dir in enumerate(dataset_dirs)
    ]
    print(json.dumps(counts))


main()
