"""Schemas for tests of schemas."""

from decimal import Decimal

import numpy as np

from mdstorm._schema import NamedSparkType
from mdstorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from mdstorm.unischema import Unischema, UnischemaField

EVERYTHING = Unischema(
    "Everything",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(NamedSparkType("long")), False),
        UnischemaField("name", np.str_, (), ScalarCodec(NamedSparkType("string")), True),
        UnischemaField("price", Decimal, (), ScalarCodec(NamedSparkType("decimal(10,2)")), False),
        UnischemaField("at", np.datetime64, (), ScalarCodec(NamedSparkType("timestamp")), False),
        UnischemaField("flag", np.bool_, (), None, False),
        UnischemaField("vec", np.float32, (3,), NdarrayCodec(), False),
        UnischemaField("mat", np.int16, (None, 2), NdarrayCodec(), True),
        UnischemaField("zipped", np.uint8, (None,), CompressedNdarrayCodec(), True),
        UnischemaField("png", np.uint8, (None, None, 3), CompressedImageCodec("png"), False),
        UnischemaField("jpeg", np.uint8, (8, 8), CompressedImageCodec("jpeg", 90), True),
    ],
)
