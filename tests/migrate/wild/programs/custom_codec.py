import json
import numpy as np
from petastorm.codecs import DataframeColumnCodec, ScalarCodec
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql.types import BinaryType, IntegerType


class JsonCodec(DataframeColumnCodec):
    def encode(self, unischema_field, value):
        return bytearray(json.dumps(value.tolist()).encode())

    def decode(self, unischema_field, value):
        return np.array(json.loads(bytes(value).decode()), dtype=unischema_field.numpy_dtype)

    def spark_dtype(self):
        return BinaryType()


S = Unischema("S", [UnischemaField("id", np.int32, (), ScalarCodec(IntegerType()), False),
                    UnischemaField("j", np.int64, (None,), JsonCodec(), False)])


def main(spark, directory):
    encoded = dict_to_spark_row(S, {"id": 3, "j": np.arange(3)})
    back = S.j.codec.decode(S.j, encoded.j)
    return {"encoded": bytes(encoded.j).decode(), "back": back.tolist(), "dtype": str(back.dtype)}
