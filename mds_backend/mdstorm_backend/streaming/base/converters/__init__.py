"""From Spark to MDS: the mirror of ``streaming.base.converters``."""

from __future__ import annotations

from mdstorm_backend.drop_in.absent import ABSENT
from mdstorm_backend.streaming.base.converters.dataframe_to_mds import (
    dataframe_to_mds,
    infer_dataframe_schema,
    is_json_compatible,
)

__all__ = ["dataframe_to_mds", "infer_dataframe_schema", "is_json_compatible"]

__getattr__ = ABSENT.refusing(__name__)
