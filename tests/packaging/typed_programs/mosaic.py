"""MosaicML Streaming's modules, which are generated from a table when they are imported."""

from typing import Any

import numpy as np

import mdstorm_backend.streaming.base.util as util
from mdstorm_backend.streaming import MDSWriter, StreamingDataset, text, vision
from mdstorm_backend.streaming.base.converters import dataframe_to_mds, infer_dataframe_schema
from mdstorm_backend.streaming.base.format.mds.encodings import Encoding, _encodings
from mdstorm_backend.streaming.base.shuffle import get_shuffle, get_shuffle_py1e
from mdstorm_backend.streaming.base.storage.upload import S3Uploader
from mdstorm_backend.streaming.vision.base import StreamingVisionDataset


class Own(Encoding):
    def encode(self, obj: Any) -> bytes:
        return bytes(obj)

    def decode(self, data: bytes) -> Any:
        return list(data)


def write(directory: str) -> int:
    _encodings["own"] = Own
    with MDSWriter(out=directory, columns={"x": "own"}) as writer:
        writer.write({"x": [1]})
    S3Uploader(directory).upload_file("index.json")
    return util.bytes_to_int("1mb")


def read(directory: str) -> list[StreamingDataset]:
    return [
        StreamingVisionDataset(local=directory),
        vision.StreamingImageNet(local=directory),
        text.StreamingEnWiki(local=directory),
    ]


def convert(frame: Any) -> dict[str, str] | None:
    dataframe_to_mds(frame, mds_kwargs={"out": "out"})
    return infer_dataframe_schema(frame)


sizes = np.array([3, 4])
ids = get_shuffle("py1s", sizes, 1, 9, 0, 18)
assert ids.dtype == get_shuffle_py1e(sizes, 1, 9, 0, 18).dtype
