"""Unischema <-> dict, so schemas can be kept in JSON beside the code"""
import numpy as np
from pyspark.sql import types as T

from petastorm import codecs
from petastorm.unischema import Unischema, UnischemaField

_SPARK = {'long': T.LongType, 'string': T.StringType}
_DTYPES = {'str': np.str_}


def _codec(text):
    kind, _, arg = text.partition(':')
    return {'scalar': lambda: codecs.ScalarCodec(_SPARK[arg]()), 'ndarray': codecs.NdarrayCodec}[kind]()


def schema_from_dict(d):
    return Unischema(d['name'], [
        UnischemaField(f['name'], _DTYPES.get(f['dtype']) or getattr(np, f['dtype']), tuple(f.get('shape', ())),
                       _codec(f['codec']), f.get('nullable', False)) for f in d['fields']])


def schema_to_dict(s):
    out = []
    for f in s.fields.values():
        e = {'name': f.name, 'dtype': 'str' if f.numpy_dtype is np.str_ else f.numpy_dtype.__name__,
             'codec': 'ndarray' if isinstance(f.codec, codecs.NdarrayCodec) else 'scalar:' + f.codec.spark_dtype().simpleString()}
        if f.shape:
            e['shape'] = list(f.shape)
        if f.nullable:
            e['nullable'] = True
        out.append(e)
    for e in out:
        e['codec'] = e['codec'].replace('bigint', 'long')
    return {'name': s._name, 'fields': out}
