from decimal import Decimal

import numpy as np
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.unischema import dict_to_spark_row
from schemas import EventSchema


def _rows(day, ids):
    for i in ids:
        yield dict_to_spark_row(EventSchema, dict(event_id=i, day=day, price=Decimal(i) / 4, small=np.uint8(i),
                                                  emb=np.full(4, i, np.float16)))


def _df(spark, day, ids):
    return spark.createDataFrame(list(_rows(day, ids)), EventSchema.as_spark_schema()).coalesce(1)


def write_day(spark, url, day, ids, mode='overwrite'):
    with materialize_dataset(spark, url, EventSchema, row_group_size_mb=8):
        _df(spark, day, ids).write.partitionBy('day').mode(mode).parquet(url)


def append_day(spark, url, day, ids):
    write_day(spark, url, day, ids, mode='append')
