"""Reads a converter's dataset by MosaicML's loader as ``data_loader_fn`` and prints it as JSON.

    convert.py DATASET_DIR FILE_URLS_JSON READER_ARGUMENTS_JSON

The last one is a list: one loader is made of each of its objects.
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any

from streaming import StreamingDataLoader, StreamingDataset

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "compat"), str(ROOT / "mds_backend")]

from mdstorm.spark import SparkDatasetConverter  # noqa: E402  after its place is known


def read(converter: SparkDatasetConverter, arguments: dict[str, Any]) -> dict[str, Any]:
    loader_fn = functools.partial(StreamingDataLoader, drop_last=True)
    manager: Any = converter.make_torch_dataloader(4, data_loader_fn=loader_fn, **arguments)
    with manager as loader:
        return {
            "types": [
                type(loader.dataset) is StreamingDataset,
                type(loader) is StreamingDataLoader,
            ],
            "attributes": [manager.reader, manager.loader is loader],
            "passes": [[batch["number"].tolist() for batch in loader] for _ in range(2)],
            "epoch": loader.state_dict()["epoch"],
        }


def main() -> None:
    directory, urls, cases = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    converter = SparkDatasetConverter(f"file://{directory}", urls, 0)
    print(json.dumps([read(converter, arguments) for arguments in cases]))


main()
