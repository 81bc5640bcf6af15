import numpy as np
from petastorm import unischema as U
from petastorm import codecs as C
import pyspark.sql.types as pst

ImageSchema = U.Unischema('ImageSchema', [
    U.UnischemaField('noun_id', np.str_, (), C.ScalarCodec(pst.StringType()), False),
    U.UnischemaField('image', np.uint8, (None, None, 3), C.CompressedImageCodec('png'), False),
    U.UnischemaField('boxes', np.float32, (None, 4), C.NdarrayCodec(), False),
])
