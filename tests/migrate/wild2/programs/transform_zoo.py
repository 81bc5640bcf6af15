import functools
import numpy as np
import pandas as pd
from petastorm import make_batch_reader, TransformSpec
from petastorm.transform import transform_schema, edit_field
from petastorm.unischema import Unischema, UnischemaField


class Normalize:
    def __init__(self, mean, std): self.mean, self.std = mean, std
    def __call__(self, df):
        df = df.copy()
        df['x'] = ((df.x - self.mean) / self.std).astype(np.float32)
        return df


def compose(*fns):
    return functools.reduce(lambda f, g: lambda d: g(f(d)), fns)


SPECS = dict(
    only_remove=TransformSpec(removed_fields=['y']),
    select=TransformSpec(lambda d: d[['y', 'id']], selected_fields=['y', 'id']),
    edit=TransformSpec(Normalize(2, 4), [('x', np.float32, (), False)]),
    vec=TransformSpec(compose(Normalize(0, 1), lambda d: d.assign(v=[np.float32([a, b]) for a, b in zip(d.x, d.y)])[['v']]),
                      edit_fields=[edit_field('v', np.float32, (2,))], removed_fields=['id', 'x', 'y']),
)


def main(spark, directory):
    spark.range(6).selectExpr('id', 'cast(id as double) as x', 'id * 2 as y').coalesce(1).write.parquet(directory + '/t')
    res = {}
    for name in sorted(SPECS):
        with make_batch_reader('file://' + directory + '/t', transform_spec=SPECS[name], reader_pool_type='dummy') as r:
            batch = next(r)
            res[name] = [(f, str(np.asarray(getattr(batch, f)).dtype), str(np.shape(getattr(batch, f))),
                          float(np.sum(getattr(batch, f)))) for f in batch._fields]
    base = Unischema('b', [UnischemaField('a', np.int32, (), None, False), UnischemaField('b', np.int32, (), None, False)])
    new = transform_schema(base, TransformSpec(removed_fields=['b'], edit_fields=[('c', np.str_, (), True)]))
    res['schema'] = [list(new.fields), new._name]
    try:
        TransformSpec(removed_fields=['a'], selected_fields=['b'])
    except ValueError as e:
        res['err'] = str(e)
    return res
