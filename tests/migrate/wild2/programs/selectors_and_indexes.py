from petastorm.etl.rowgroup_indexers import SingleFieldIndexer, FieldNotNullIndexer
from petastorm.etl.rowgroup_indexing import build_rowgroup_index, get_row_group_indexes
from petastorm.selectors import SingleIndexSelector, IntersectIndexSelector, UnionIndexSelector
from petastorm.etl.dataset_metadata import materialize_dataset as mat
from petastorm import make_reader as mr
from petastorm import unischema as us
from petastorm.codecs import ScalarCodec as SC
import numpy as np
import pyspark.sql.types as T
import pyarrow.parquet as pq

Sensors = us.Unischema('Sensors', [
    us.UnischemaField('id', np.int32, (), SC(T.IntegerType()), False),
    us.UnischemaField('sensor', np.str_, (), SC(T.StringType()), False),
    us.UnischemaField('room', np.str_, (), SC(T.StringType()), True),
])


def main(spark, directory):
    url = 'file:///' + directory.lstrip('/') + '/sensors'
    rows = [us.dict_to_spark_row(Sensors, {'id': i, 'sensor': 's%d' % (i // 5), 'room': 'r1' if i >= 15 else None})
            for i in range(20)]
    with mat(spark, url, Sensors, 1):
        spark.createDataFrame(rows, Sensors.as_spark_schema()).repartitionByRange(4, 'id').write.parquet(url)
    build_rowgroup_index(url, spark.sparkContext,
                         [SingleFieldIndexer('by_sensor', 'sensor'), FieldNotNullIndexer('has_room', 'room'),
                          SingleFieldIndexer(index_name='by_id', index_field='id')])

    def ids(sel):
        with mr(url, rowgroup_selector=sel, workers_count=1) as r:
            return sorted(int(x.id) for x in r)
    s0, s3 = SingleIndexSelector('by_sensor', ['s0']), SingleIndexSelector('by_sensor', ['s3'])
    out = {'s0': ids(s0), 'union': ids(UnionIndexSelector([s0, s3])),
           'both': ids(IntersectIndexSelector([s3, SingleIndexSelector('by_id', [16])]))}
    indexes = get_row_group_indexes(pq.ParquetDataset(directory + '/sensors', use_legacy_dataset=True))
    out['names'] = sorted(indexes)
    out['values'] = sorted(indexes['by_sensor'].indexed_values)
    return out
