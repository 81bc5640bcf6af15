import numpy as np
from petastorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from petastorm.unischema import Unischema, UnischemaField
from pyspark.sql import types as T

FrameSchema = Unischema('FrameSchema', [
    UnischemaField('frame_id', np.int64, (), ScalarCodec(T.LongType()), False),
    UnischemaField('camera', np.uint8, (None, None, 3), CompressedImageCodec('jpeg', quality=90), False),
    UnischemaField('boxes', np.float32, (None, 4), NdarrayCodec(), False),
])
