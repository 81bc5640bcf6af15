"""Spark DataFrames for training, mirroring ``petastorm.spark``."""

from mdstorm._petastorm_names import other_names
from mdstorm.spark import spark_dataset_converter
from mdstorm.spark.spark_dataset_converter import SparkDatasetConverter, make_spark_converter

__all__ = ["SparkDatasetConverter", "make_spark_converter", "spark_dataset_converter"]

__getattr__ = other_names(__name__)
