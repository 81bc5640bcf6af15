"""Read shards into batches."""

from __future__ import annotations

from mdstorm_backend.read.batch_formats import (
    arrays_to_pandas,
    column_for_pandas,
    column_to_numpy,
    scalars_to_numpy,
)
from mdstorm_backend.read.block import Block, Transform, check_kept
from mdstorm_backend.read.damage import ON_CORRUPT, OnCorrupt
from mdstorm_backend.read.decoded_images import (
    Decode,
    ImageDecoder,
    Size,
    check_decode,
    decoded_names,
)
from mdstorm_backend.read.file_reader import FileReader
from mdstorm_backend.read.late import decode_late, map_in_threads, objects
from mdstorm_backend.read.made_columns import file_columns
from mdstorm_backend.read.nulls import NullPolicy
from mdstorm_backend.read.reader import check_num_epochs
from mdstorm_backend.read.sample_source import SampleSource, fingerprint_of, fingerprints_of
from mdstorm_backend.read.shard import OpenShards, Rows, Shard
from mdstorm_backend.read.stacking import (
    Output,
    Stack,
    StackOption,
    check_outputs,
    checked_stack,
    output_name,
)
from mdstorm_backend.read.stages import calls_apart
from mdstorm_backend.read.steps import Reading, Steps

__all__ = [
    "ON_CORRUPT",
    "Block",
    "Decode",
    "FileReader",
    "ImageDecoder",
    "NullPolicy",
    "OnCorrupt",
    "OpenShards",
    "Output",
    "Reading",
    "Rows",
    "SampleSource",
    "Shard",
    "Size",
    "Stack",
    "StackOption",
    "Steps",
    "Transform",
    "arrays_to_pandas",
    "calls_apart",
    "check_decode",
    "check_kept",
    "check_num_epochs",
    "check_outputs",
    "checked_stack",
    "column_for_pandas",
    "column_to_numpy",
    "decode_late",
    "decoded_names",
    "file_columns",
    "fingerprint_of",
    "fingerprints_of",
    "map_in_threads",
    "objects",
    "output_name",
    "scalars_to_numpy",
]
