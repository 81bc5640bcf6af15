import base64
import io
import pickle
import pickletools

import numpy as np
from pyspark.sql.types import IntegerType
from petastorm.codecs import ScalarCodec, NdarrayCodec
from petastorm.transform import TransformSpec
from petastorm.unischema import Unischema, UnischemaField, _fields_as_tuple
from petastorm.predicates import in_set


class OnlyPetastorm(pickle.Unpickler):
    SAFE = ('petastorm.', 'numpy', 'collections', 'pyspark.sql.types', 'builtins')

    def find_class(self, module, name):
        if not module.startswith(self.SAFE):
            raise pickle.UnpicklingError(module)
        return super().find_class(module, name)


def times_two(row):
    return {k: v * 2 for k, v in row.items()}


def main(spark, directory):
    s = Unischema('P', [UnischemaField('a', np.int32, (), ScalarCodec(IntegerType()), False),
                        UnischemaField('b', np.float32, (2,), NdarrayCodec(), True)])
    blob = pickle.dumps(s, protocol=2)
    again = OnlyPetastorm(io.BytesIO(blob)).load()
    mods = {op[1].split()[0].split('.')[0] for op in pickletools.genops(blob) if op[0].name == 'GLOBAL'}
    spec = pickle.loads(pickle.dumps(TransformSpec(times_two, removed_fields=['a'])))
    pred = pickle.loads(pickle.dumps(in_set([1], 'a')))
    with open(directory + '/schema.pkl', 'wb') as f:
        pickle.dump(again, f)
    with open(directory + '/schema.pkl', 'rb') as f:
        third = pickle.load(f)
    return [again.a == s.a, third.fields['b'] == s.b, hash(third.b) == hash(s.b), spec.func({'x': 2}), pred.do_include({'a': 1}),
            'numpy' in mods, len(_fields_as_tuple(s.a))]
