import hashlib
import operator
from abc import ABCMeta, abstractmethod
from functools import reduce
import numpy as np
import petastorm.predicates as pp
from petastorm.predicates import PredicateBase
from petastorm.reader import make_reader


class BaseFilter(PredicateBase, metaclass=ABCMeta):
    @abstractmethod
    def mask(self, **cols): ...

    def __init__(self, *fields):
        self.fields = fields

    def get_fields(self):
        return set(self.fields)

    def do_include(self, values):
        return self.mask(**{f: values[f] for f in self.fields})

    def __and__(self, other):
        return _Op(operator.and_, self, other)

    def __invert__(self):
        return _Not(self)


class _Op(BaseFilter):
    def __init__(self, op, *parts):
        super().__init__(*sorted(reduce(operator.or_, (p.get_fields() for p in parts))))
        self.op, self.parts = op, parts

    def mask(self, **cols):
        return reduce(self.op, [p.do_include(cols) for p in self.parts])


class _Not(_Op):
    def __init__(self, part):
        super().__init__(None, part)

    def mask(self, **cols):
        return not self.parts[0].do_include(cols)


class HashBelow(BaseFilter):
    def __init__(self, field, frac):
        super().__init__(field)
        self.frac = frac

    def mask(self, **cols):
        h = int(hashlib.md5(str(cols[self.fields[0]]).encode()).hexdigest()[:8], 16)
        return h / 0xffffffff < self.frac


class Between(BaseFilter):
    lo, hi = 3, 15

    def mask(self, **cols):
        (v,) = cols.values()
        return self.lo <= v < self.hi


def main(spark, directory):
    spark.range(20).selectExpr('id', 'array(id, id + 1) as arr').coalesce(2).write.parquet(directory + '/p')
    url = 'file://' + directory + '/p'

    def ids(pred):
        with make_reader(url, predicate=pred, schema_fields=['id', 'arr'], reader_pool_type='dummy') as r:
            return sorted(int(row.id) for row in r)
    a, b = Between('id'), HashBelow('id', .5)
    return {'between': ids(a), 'both': ids(a & b), 'rest': ids(a & ~b),
            'reduce': ids(pp.in_reduce([a, pp.in_negate(b)], all)), 'any': len(ids(pp.in_reduce([a, b], any))),
            'inter': ids(pp.in_intersection([4, 11], 'arr')), 'sub': issubclass(HashBelow, pp.PredicateBase)}
