"""MosaicML's own loader as ``data_loader_fn`` of a converter."""

import json
from pathlib import Path
from typing import Any

from tests.interop.conftest import RunInMosaic
from tests.mds_backend.small_datasets import write_dataset

from mdstorm_backend import StreamingDataLoader, StreamingDataset

#: Arguments for the converter, and those of a dataset that mean the same.
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"shuffle_row_groups": False}, {}),
    ({"seed": 7}, {"shuffle": True, "shuffle_seed": 7}),
    ({"shuffling_queue_capacity": 8}, {"shuffle": True, "shuffle_block_size": 8}),
]


def test_it_reads_a_genuine_dataset(run_in_mosaic: RunInMosaic, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    dataset = write_dataset(directory, {"number": range(30)}, {"number": "long"}, tasks=2)
    reader_arguments = [reader for reader, _ in CASES]
    found = run_in_mosaic(
        "convert.py", directory, json.dumps(dataset.file_urls), json.dumps(reader_arguments)
    )
    for case, (_, order) in zip(found, CASES, strict=True):
        assert case["types"] == [True, True]
        assert case["attributes"] == [None, True]
        ours = StreamingDataLoader(
            StreamingDataset(local=str(directory), batch_size=4, **order),
            batch_size=4,
            drop_last=True,
        )
        assert case["passes"] == [[b["number"].tolist() for b in ours] for _ in range(2)]
        assert case["epoch"] == 1
