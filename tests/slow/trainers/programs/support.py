"""Code shared by the programs: converters without Spark, and records of rows and warnings.

Importing it starts recording the warnings of ranks, even if trainers suppress them.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mdstorm import TransformSpec
from mdstorm._readers.succession import successions
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import open_dataset
from mdstorm_backend.loaders import agreement


def begin_as_in_a_new_process() -> None:
    """Forget which epochs this process has read, so that the next reader starts with the first."""
    successions.clear()


def converter_of(url: str) -> SparkDatasetConverter:
    """Return a converter without Spark, like one that a program has unpickled."""
    dataset = open_dataset(url)
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))


#: For each kind of converter loader, its arguments in addition to those for all loaders.
_OF_CONVERTER = {
    "converter": {"cur_shard": "auto"},
    "explicit": {"cur_shard": 0, "shard_count": 2},
    # Without shard arguments, each rank reads all rows with a random seed, as in Petastorm.
    "all": {"shuffle_rows": True},
}


def loader_of(url: str, kind: str) -> Any:
    """Return a converter's loader, with or without a length, or a loader over a dataset."""
    from torch.utils.data import DataLoader  # Keras programs do not need torch

    from mdstorm_backend import StreamingDataLoader, StreamingDataset

    if kind in ("plain", "streaming"):
        dataset = StreamingDataset(local=url, batch_size=100, shuffle=True)
        loader = DataLoader if kind == "plain" else StreamingDataLoader
        return loader(dataset, batch_size=100, num_workers=2)
    options: dict[str, Any] = _OF_CONVERTER["converter" if kind == "transform" else kind]
    if kind == "transform":  # a transform may drop rows, so the loader has no length
        options = {**options, "transform_spec": TransformSpec(keep_all)}
    return converter_of(url).make_torch_dataloader(batch_size=100, num_epochs=1, **options)


def keep_all(frame: Any) -> Any:
    """Return all rows."""
    return frame


def record(batch: Iterable[int], part: str = "rows") -> None:
    """Record a batch's row numbers; rows are counted separately per `part`, such as an epoch."""
    directory = Path(os.environ["MDSTORM_TEST_RECORDS"])
    with (directory / f"{part}-{_rank()}.jsonl").open("a") as file:
        file.write(json.dumps([int(number) for number in batch]) + "\n")


def _rank() -> int:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    if "TF_CONFIG" in os.environ:
        return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
    return int(os.environ.get("RANK", "0"))


_warn_user = agreement.warn_user


def _note(message: str) -> None:
    with (Path(os.environ["MDSTORM_TEST_RECORDS"]) / "warnings").open("a") as file:
        file.write(f"{message}\n")
    _warn_user(message)


if "MDSTORM_TEST_RECORDS" in os.environ:  # not set in tests that import this module
    agreement.warn_user = _note
    agreement.PATIENCE = 30.0  # a rank on a loaded machine may answer late
