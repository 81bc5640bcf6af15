"""Write what is derived from the declarations of arguments.

- The names of the parameters of mdstorm's functions, which `mdstorm_migrate` reads. The functions
  have all of Petastorm's parameters, and more. `mdstorm_migrate` imports neither library.
- The descriptions of the arguments in `mdstorm_backend.loaders.arguments`, in the docstring of
  `StreamingDataset`, where editors find them.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

from mdstorm.codecs import CompressedImageCodec
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths
from mdstorm.ngram import NGram
from mdstorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.tf_utils import make_petastorm_dataset, tf_tensors
from mdstorm.transform import TransformSpec
from mdstorm_backend import StreamingDataset
from mdstorm_backend.base import declared

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "migrate/mdstorm_migrate/petastorm/parameters.json"
DATASET = ROOT / "mds_backend/mdstorm_backend/loaders/torch/streaming_dataset.py"
#: The functions whose calls `mdstorm_migrate` checks.
FUNCTIONS: list[Callable[..., Any]] = [
    BatchedDataLoader,
    CompressedImageCodec,
    DataLoader,
    FilesystemResolver,
    InMemBatchedDataLoader,
    NGram,
    SparkDatasetConverter.make_tf_dataset,
    SparkDatasetConverter.make_torch_dataloader,
    TransformSpec,
    get_filesystem_and_path_or_paths,
    make_batch_reader,
    make_petastorm_dataset,
    make_reader,
    make_spark_converter,
    materialize_dataset,
    tf_tensors,
]


def text() -> str:
    """Return the file's text: a JSON object from functions to their parameters."""
    found = {
        function.__name__: sorted(inspect.signature(function).parameters.keys() - {"self"})
        for function in FUNCTIONS
    }
    return json.dumps(found, indent=1) + "\n"


def described() -> str:
    """Return the source of `StreamingDataset` with the descriptions at the end of its parameters.

    They follow the parameter `world`, whose description is written by hand.
    """
    entries = [one.entry(name) + "\n" for name, one in declared(StreamingDataset.__init__).items()]
    source = DATASET.read_text(encoding="utf-8")
    before = r"(    world : .*\n(?: {8}.*\n)*)(?:.*\n)*?(?=\n    Attributes\n)"
    return re.sub(before, lambda found: found[1] + indent("".join(entries), "    "), source)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    DATASET.write_text(described(), encoding="utf-8")
