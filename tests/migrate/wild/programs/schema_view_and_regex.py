import numpy as np
from petastorm.unischema import Unischema, UnischemaField, match_unischema_fields, insert_explicit_nulls, dict_to_spark_row
from petastorm.codecs import ScalarCodec, NdarrayCodec
from pyspark.sql.types import IntegerType, StringType

Wide = Unischema("Wide", [UnischemaField("cam_%d" % i, np.uint8, (2,), NdarrayCodec(), True) for i in range(3)] + [
    UnischemaField("id", np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField("name", np.str_, (), ScalarCodec(StringType()), True)])


def main(spark, directory):
    row = {"id": 1}
    insert_explicit_nulls(Wide, row)
    view = Wide.create_schema_view([Wide.id, "cam_[01]"])
    spark_row = dict_to_spark_row(Wide, {"id": 5, "name": "n", "cam_0": np.zeros(2, np.uint8), "cam_1": None, "cam_2": None})
    return {"nulls": {k: row[k] for k in sorted(row)}, "view": sorted(view.fields), "row": sorted(spark_row.asDict()),
            "match": sorted(f.name for f in match_unischema_fields(Wide, ["cam_.*"])),
            "spark": Wide.as_spark_schema().simpleString(), "str": str(Wide).count("cam_"),
            "nt": sorted(Wide.make_namedtuple(id=1, name=None, cam_0=None, cam_1=None, cam_2=None)._fields)}
