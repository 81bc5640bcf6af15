"""Loaders: passes over a dataset, their batches, nulls and states."""

from __future__ import annotations

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.format.values.batch import MASK_SUFFIX
from mdstorm_backend.loaders import arguments
from mdstorm_backend.loaders.consumer import CONSUMER, MOST_UNUSED, Consumer, Usage
from mdstorm_backend.loaders.description import describe_data, describe_order
from mdstorm_backend.loaders.epochs import Epochs
from mdstorm_backend.loaders.loader import (
    NOTHING,
    Convert,
    Loader,
    MakeBatches,
    NumberedBatches,
    converted,
)
from mdstorm_backend.loaders.loader_statistics import Statistics
from mdstorm_backend.loaders.nulls import null_error
from mdstorm_backend.loaders.read_ahead import ReadAhead
from mdstorm_backend.loaders.reader_options import Conditions, ReaderOptions
from mdstorm_backend.loaders.run_trace import RunTrace
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.state import read_state, write_state
from mdstorm_backend.loaders.trace import Trace, trace_of_state
from mdstorm_backend.loaders.used_batches import UsedBatches

__all__ = [
    "CONSUMER",
    "MASK_SUFFIX",
    "MOST_UNUSED",
    "NOTHING",
    "Conditions",
    "Consumer",
    "Convert",
    "Epochs",
    "Loader",
    "MakeBatches",
    "NumberedBatches",
    "ReadAhead",
    "ReaderOptions",
    "Recorder",
    "RunTrace",
    "Segment",
    "Statistics",
    "Trace",
    "Usage",
    "UsedBatches",
    "arguments",
    "converted",
    "describe_data",
    "describe_order",
    "null_error",
    "read_state",
    "trace_of_state",
    "write_state",
]
