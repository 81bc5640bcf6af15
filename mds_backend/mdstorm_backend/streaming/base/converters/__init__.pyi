"""streaming.base.converters: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.spark.dataframe_to_mds import dataframe_to_mds as dataframe_to_mds
from mdstorm_backend.mosaic.util import infer_dataframe_schema as infer_dataframe_schema

__all__ = [
    "dataframe_to_mds",
    "infer_dataframe_schema",
]
