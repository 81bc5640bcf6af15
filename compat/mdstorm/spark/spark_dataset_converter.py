"""Convert Spark DataFrames, mirroring ``petastorm.spark.spark_dataset_converter``."""

from mdstorm._petastorm_names import other_names
from mdstorm._spark import (
    DEFAULT_ROW_GROUP_SIZE_BYTES,
    SparkDatasetConverter,
    TFDatasetContextManager,
    TorchDatasetContextManager,
    make_spark_converter,
    register_delete_dir_handler,
)

__all__ = [
    "DEFAULT_ROW_GROUP_SIZE_BYTES",
    "SparkDatasetConverter",
    "TFDatasetContextManager",
    "TorchDatasetContextManager",
    "make_spark_converter",
    "register_delete_dir_handler",
]

__getattr__ = other_names(__name__)
