from decimal import Decimal

import numpy as np
from pyspark.sql.types import DecimalType, IntegerType, StringType, ShortType

from petastorm.codecs import NdarrayCodec, ScalarCodec
from petastorm.unischema import Unischema, UnischemaField

_F = UnischemaField
EventSchema = Unischema('EventSchema', [
    _F('event_id', np.int32, (), ScalarCodec(IntegerType()), False),
    _F('day', np.str_, (), ScalarCodec(StringType()), False),
    _F('price', Decimal, (), ScalarCodec(DecimalType(10, 2)), False),
    _F('small', np.uint8, (), ScalarCodec(ShortType()), False),
    _F('emb', np.float16, (4,), NdarrayCodec(), False),
])
