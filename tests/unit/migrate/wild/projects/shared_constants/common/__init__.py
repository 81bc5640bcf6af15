"""Everybody imports petastorm through here."""
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm import TransformSpec
import petastorm.pytorch as loaders

CACHE_KEY = SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF
__all__ = ["SparkDatasetConverter", "make_spark_converter", "TransformSpec", "loaders", "CACHE_KEY"]
