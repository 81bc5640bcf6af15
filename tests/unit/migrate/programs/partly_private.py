"""Public names and a private one in a single import; the private one is used only where it exists."""
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url, infer_or_load_unischema, materialize_dataset
from petastorm.unischema import Unischema, UnischemaField, insert_explicit_nulls, match_unischema_fields

import numpy as np


def main(spark, directory):
    schema = Unischema("S", [UnischemaField("a_x", np.int32, (), None, True), UnischemaField("b", np.int32, (), None, False)])
    row = {"b": 1}
    insert_explicit_nulls(schema, row)
    try:
        get_schema_from_dataset_url("file://" + directory)
        found = True
    except Exception as error:
        found = type(error).__name__
    names = [field.name for field in match_unischema_fields(schema, ["a.*"])]
    return [row, names, found, callable(infer_or_load_unischema), callable(materialize_dataset)]
