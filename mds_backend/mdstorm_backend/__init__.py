"""The MDS engine of mdstorm: writes, orders and reads MDS shards.

The names below are loaded on first use, so importing this package is cheap. Importing it also
installs hooks for training frameworks, which are applied once the frameworks are loaded: see
`mdstorm_backend.integrations`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from mdstorm_backend.base.optional import require
from mdstorm_backend.integrations import install

if TYPE_CHECKING:
    from mdstorm_backend.datasets.dataset import Dataset
    from mdstorm_backend.datasets.open_streams import streams_registry
    from mdstorm_backend.datasets.sample_dataset import SampleDataset
    from mdstorm_backend.datasets.stream import Stream
    from mdstorm_backend.elastic import ElasticOrder
    from mdstorm_backend.format.encodings.registry import register_encoding
    from mdstorm_backend.kinds.dataset import open_dataset
    from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader
    from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
    from mdstorm_backend.mosaic import install_as_streaming
    from mdstorm_backend.mosaic.local_dataset import LocalDataset
    from mdstorm_backend.order.exact import ExactOrder
    from mdstorm_backend.spark.dataframe_to_mds import dataframe_to_mds
    from mdstorm_backend.spark.materialization import materialize
    from mdstorm_backend.write.mds_writer import MDSWriter
    from mdstorm_backend.write.merge import merge_index

__all__ = [
    "Dataset",
    "ElasticOrder",
    "ExactOrder",
    "LocalDataset",
    "MDSWriter",
    "SampleDataset",
    "Stream",
    "StreamingDataLoader",
    "StreamingDataset",
    "dataframe_to_mds",
    "install_as_streaming",
    "materialize",
    "merge_index",
    "open_dataset",
    "register_encoding",
    "streams_registry",
]

_HOMES = {
    "Dataset": "datasets.dataset",
    "ElasticOrder": "elastic",
    "ExactOrder": "order.exact",
    "LocalDataset": "mosaic.local_dataset",
    "MDSWriter": "write.mds_writer",
    "SampleDataset": "datasets.sample_dataset",
    "Stream": "datasets.stream",
    "StreamingDataLoader": "loaders.torch.streaming_data_loader",
    "StreamingDataset": "loaders.torch.streaming_dataset",
    "dataframe_to_mds": "spark.dataframe_to_mds",
    "install_as_streaming": "mosaic",
    "materialize": "spark.materialization",
    "merge_index": "write.merge",
    "open_dataset": "kinds",
    "register_encoding": "format.encodings.registry",
    "streams_registry": "datasets.open_streams",
}


#: Names that users may expect in this package, and what they are.
_ELSEWHERE = {
    "BatchedDataLoader": "mdstorm.pytorch.BatchedDataLoader",
    "DataLoader": "mdstorm_backend.StreamingDataLoader",
    "SparkDatasetConverter": "mdstorm.spark.SparkDatasetConverter",
    "TransformSpec": "mdstorm.TransformSpec",
    "make_batch_reader": "mdstorm.make_batch_reader",
    "make_petastorm_dataset": "mdstorm.tf_utils.make_petastorm_dataset",
    "make_reader": "mdstorm.make_reader",
    "make_spark_converter": "mdstorm.spark.make_spark_converter",
}


install()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from mdstorm_backend.drop_in.absent_names import AbsentNames

        raise AbsentNames("", __name__, "", {}, _ELSEWHERE).error(__name__, name, sys._getframe(1))
    if _HOMES[name].startswith("loaders.torch"):
        require("torch")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
