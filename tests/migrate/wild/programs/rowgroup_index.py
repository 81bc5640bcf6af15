import numpy as np
from pyspark.sql.types import IntegerType, StringType

from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.etl.rowgroup_indexers import SingleFieldIndexer, FieldNotNullIndexer
from petastorm.etl.rowgroup_indexing import build_rowgroup_index
from petastorm.selectors import SingleIndexSelector, UnionIndexSelector, IntersectIndexSelector
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm import make_reader

Schema = Unischema('Schema', [
    UnischemaField('id', np.int32, (), ScalarCodec(IntegerType()), False),
    UnischemaField('sensor', np.str_, (), ScalarCodec(StringType()), False),
    UnischemaField('note', np.str_, (), ScalarCodec(StringType()), True),
])


def main(spark, directory):
    url = 'file://' + directory + '/idx'
    with materialize_dataset(spark, url, Schema):
        df = spark.createDataFrame([dict_to_spark_row(Schema, {'id': i, 'sensor': 's%d' % (i // 3),
                                                               'note': 'n' if i > 5 else None})
                                    for i in range(9)], Schema.as_spark_schema())
        df.coalesce(1).repartitionByRange(3, 'id').write.parquet(url)
    build_rowgroup_index(url, spark.sparkContext,
                         [SingleFieldIndexer('by_sensor', 'sensor'), FieldNotNullIndexer('has_note', 'note')])
    def ids(selector):
        with make_reader(url, rowgroup_selector=selector, num_epochs=1) as r:
            return sorted(int(x.id) for x in r)
    return {'single': ids(SingleIndexSelector('by_sensor', ['s1'])),
            'union': ids(UnionIndexSelector([SingleIndexSelector('by_sensor', ['s0']),
                                             SingleIndexSelector('by_sensor', ['s2'])])),
            'inter': ids(IntersectIndexSelector([SingleIndexSelector('by_sensor', ['s0']),
                                                 SingleIndexSelector('by_sensor', ['s2'])]))}
