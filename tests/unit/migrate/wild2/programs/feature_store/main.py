import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'src'))

from featstore import FeatureStore, get_engine, list_engines  # noqa: E402
from featstore.schema_io import schema_from_dict, schema_to_dict  # noqa: E402


def main(spark, directory):
    fs = FeatureStore(spark, 'file://' + directory + '/fs', engine='petastorm')
    spec = {'name': 'Users', 'fields': [
        {'name': 'uid', 'dtype': 'int64', 'codec': 'scalar:long'},
        {'name': 'emb', 'dtype': 'float32', 'shape': [3], 'codec': 'ndarray'},
        {'name': 'note', 'dtype': 'str', 'codec': 'scalar:string', 'nullable': True}]}
    schema = schema_from_dict(spec)
    fs.put('users', schema, [{'uid': i, 'emb': [i, i, 1], 'note': None} for i in range(5)])
    got = fs.get('users', columns=['uid', 'emb'])
    return [got, schema_to_dict(schema) == spec, list_engines(), get_engine('petastorm').__name__, fs.engine_version() > '0']
