"""Modules imported by name."""
import importlib
import importlib.util


def main(spark, directory):
    if importlib.util.find_spec("petastorm") is None:
        raise SystemExit("install it")
    transform = importlib.import_module("petastorm.transform")
    spec = transform.TransformSpec(removed_fields=["a"])
    unischema = importlib.import_module('petastorm.unischema')
    return [spec.removed_fields, unischema.UnischemaField.__name__]
