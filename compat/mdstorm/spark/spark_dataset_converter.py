"""Convert Spark DataFrames, mirroring ``petastorm.spark.spark_dataset_converter``."""

from mdstorm._petastorm_names import other_names
from mdstorm._spark.context_managers import TFDatasetContextManager, TorchDatasetContextManager
from mdstorm._spark.converter import SparkDatasetConverter
from mdstorm._spark.deletion import register_delete_dir_handler
from mdstorm._spark.make_converter import DEFAULT_ROW_GROUP_SIZE_BYTES, make_spark_converter

__all__ = [
    "DEFAULT_ROW_GROUP_SIZE_BYTES",
    "SparkDatasetConverter",
    "TFDatasetContextManager",
    "TorchDatasetContextManager",
    "make_spark_converter",
    "register_delete_dir_handler",
]

__getattr__ = other_names(__name__)
