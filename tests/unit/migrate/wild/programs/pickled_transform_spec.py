import pickle
import functools
import numpy as np
from petastorm.transform import TransformSpec, transform_schema
from petastorm.unischema import Unischema, UnischemaField


def crop(frame, size):
    return frame


def main(spark, directory):
    spec = TransformSpec(functools.partial(crop, size=3), edit_fields=[
        ('a', np.float32, (3,), False), UnischemaField('b', np.int32, (), None, True)], removed_fields=['c'])
    schema = Unischema('X', [UnischemaField('a', np.uint8, (5,), None, False), UnischemaField('c', np.int64, (), None, False),
                             UnischemaField('d', np.str_, (), None, True)])
    new = transform_schema(schema, spec)
    copy = pickle.loads(pickle.dumps(spec.edit_fields))
    return {'fields': sorted(new.fields), 'a': list(new.fields['a'].shape), 'edit': [f[0] for f in copy],
            'selected': spec.selected_fields, 'equal': UnischemaField('b', np.int32, (), None, True) == spec.edit_fields[1]}
