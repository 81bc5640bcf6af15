"""Readers of the project."""
import petastorm
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm.unischema import Unischema as Schema

__all__ = ["Schema", "SparkDatasetConverter", "make_spark_converter", "petastorm"]
