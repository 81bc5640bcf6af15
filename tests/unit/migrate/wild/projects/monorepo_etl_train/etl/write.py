import numpy as np
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import dict_to_spark_row

from etl.schema import FrameSchema


def write(spark, url, n=4, rowgroup_size_mb=4):
    def frame(i):
        return {'frame_id': i, 'camera': np.zeros((4, 4 + i, 3), np.uint8), 'boxes': np.full((i, 4), .5, np.float32)}
    with materialize_dataset(spark, url, FrameSchema, rowgroup_size_mb):
        rows = [dict_to_spark_row(FrameSchema, frame(i)) for i in range(n)]
        spark.createDataFrame(rows, FrameSchema.as_spark_schema()).write.mode('overwrite').parquet(url)
