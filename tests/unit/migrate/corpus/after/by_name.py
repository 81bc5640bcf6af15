"""Imports by name."""
import importlib
import importlib.util
import logging
import sys
from unittest import mock

tf_utils = importlib.import_module("mdstorm.tf_utils")
HAS_LIBRARY = importlib.util.find_spec("mdstorm") is not None
LOADED = "mdstorm.spark" in sys.modules
logging.getLogger("mdstorm").setLevel(logging.ERROR)
STORAGE = "petastorm"  # a format among others


@mock.patch("mdstorm.spark.make_spark_converter")
def test_training(make_converter):
    make_converter.return_value.__len__.return_value = 3
