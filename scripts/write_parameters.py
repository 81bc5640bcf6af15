"""Write the names of the parameters of mdstorm's functions, which `mdstorm_migrate` reads.

The functions have all of Petastorm's parameters, and more. `mdstorm_migrate` imports neither
library.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
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

TARGET = Path(__file__).parents[1] / "migrate/mdstorm_migrate/petastorm/parameters.json"
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


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
