"""Read datasets with MosaicML Streaming and print the samples as JSON.

    read.py CACHE_DIR DATASET_DIR…

Each dataset is read in order, first with a `DataLoader` over a `StreamingDataset` that downloads
the shards to a cache, and then with a `LocalDataset` over that cache.
"""

import json
import sys
from pathlib import Path
from typing import Any

from describe import describe_samples
from streaming import LocalDataset, StreamingDataset
from torch.utils.data import DataLoader

BATCH_SIZE = 4


def read(dataset_dir: str, cache: str) -> dict[str, Any]:
    dataset = StreamingDataset(
        remote=dataset_dir, local=cache, batch_size=BATCH_SIZE, allow_unsafe_types=True
    )
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, collate_fn=list)
    batches = list(loader)
    return {
        "samples_per_shard": dataset.samples_per_shard.tolist(),
        "StreamingDataset": describe_samples(sample for batch in batches for sample in batch),
        "LocalDataset": describe_samples(LocalDataset(cache)),
    }


caches, *dataset_dirs = sys.argv[1:]
print(json.dumps([read(path, str(Path(caches, str(i)))) for i, path in enumerate(dataset_dirs)]))
