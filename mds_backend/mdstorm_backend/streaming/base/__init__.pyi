"""streaming.base: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import LocalDataset as LocalDataset
from mdstorm_backend import MDSWriter as MDSWriter
from mdstorm_backend import Stream as Stream
from mdstorm_backend import StreamingDataLoader as StreamingDataLoader
from mdstorm_backend import StreamingDataset as StreamingDataset
from mdstorm_backend.streaming.base import array as array
from mdstorm_backend.streaming.base import compression as compression
from mdstorm_backend.streaming.base import constant as constant
from mdstorm_backend.streaming.base import converters as converters
from mdstorm_backend.streaming.base import dataloader as dataloader
from mdstorm_backend.streaming.base import dataset as dataset
from mdstorm_backend.streaming.base import distributed as distributed
from mdstorm_backend.streaming.base import format as format
from mdstorm_backend.streaming.base import hashing as hashing
from mdstorm_backend.streaming.base import local as local
from mdstorm_backend.streaming.base import partition as partition
from mdstorm_backend.streaming.base import sampling as sampling
from mdstorm_backend.streaming.base import shuffle as shuffle
from mdstorm_backend.streaming.base import spanner as spanner
from mdstorm_backend.streaming.base import storage as storage
from mdstorm_backend.streaming.base import stream as stream
from mdstorm_backend.streaming.base import util as util
from mdstorm_backend.streaming.base import world as world

__all__ = [
    "LocalDataset",
    "MDSWriter",
    "Stream",
    "StreamingDataLoader",
    "StreamingDataset",
]
