import numpy as np
from pyspark.sql.types import *  # noqa: F403

from petastorm.codecs import ScalarCodec, NdarrayCodec
from petastorm.unischema import Unischema, UnischemaField


class NamedUnischema(Unischema):
    """Keeps a version beside the fields"""

    def __init__(self, name, fields, version=1):
        super(NamedUnischema, self).__init__(name, fields)
        self.version = version

    def extend(self, *more):
        return NamedUnischema(self._name + 'X', list(self.fields.values()) + list(more), self.version + 1)


_core = NamedUnischema('Core', [UnischemaField('qid', np.int64, (), ScalarCodec(LongType()), False),  # noqa: F405
                                UnischemaField('q_len', np.int16, (), ScalarCodec(ShortType()), False)])  # noqa: F405
BaseSchema = _core.extend(
    UnischemaField('doc_vec', np.float64, (2,), NdarrayCodec(), False),
    UnischemaField('doc_title', np.str_, (), ScalarCodec(StringType()), True))  # noqa: F405
assert BaseSchema.version == 2
QueryView = BaseSchema.create_schema_view([BaseSchema.qid, 'q_.*'])
DocView = BaseSchema.create_schema_view(['doc_.*', 'qid'])
