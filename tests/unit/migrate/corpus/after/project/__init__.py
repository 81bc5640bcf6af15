"""Readers of the project."""
import mdstorm as petastorm
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.unischema import Unischema as Schema

__all__ = ["Schema", "SparkDatasetConverter", "make_spark_converter", "petastorm"]
