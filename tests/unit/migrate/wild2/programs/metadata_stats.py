"""How big is a petastorm dataset? Answered from `_common_metadata` alone."""
import json
import os
import pickle

import numpy as np
import pyarrow.parquet as pq
import pyspark.sql.types as T

from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import (ROW_GROUPS_PER_FILE_KEY, UNISCHEMA_KEY, get_schema, infer_or_load_unischema,
                                            load_row_groups, materialize_dataset)
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row

S = Unischema('Stat', [UnischemaField('id', np.int64, (), ScalarCodec(T.LongType()), False),
                       UnischemaField('opt', np.str_, (), ScalarCodec(T.StringType()), True)])


def main(spark, directory):
    path = os.path.join(directory, 'stat')
    with materialize_dataset(spark, 'file://' + path, S, 1):
        spark.createDataFrame([dict_to_spark_row(S, {'id': i, 'opt': None}) for i in range(10)], S.as_spark_schema()) \
            .repartition(3).write.parquet('file://' + path)
    md = pq.read_metadata(os.path.join(path, '_common_metadata')).metadata
    keys = sorted(k.decode() for k in md if k.startswith(b'dataset-toolkit'))
    per_file = json.loads(md[ROW_GROUPS_PER_FILE_KEY].decode())
    unpickled = pickle.loads(md[UNISCHEMA_KEY])
    legacy = pq.ParquetDataset(path, use_legacy_dataset=True)
    out = {'keys': keys, 'files': len(per_file), 'groups': sum(per_file.values()),
           'fields': list(unpickled.fields), 'schema': list(get_schema(legacy).fields),
           'infer': type(infer_or_load_unischema(legacy)).__name__, 'pieces': len(load_row_groups(legacy)),
           'names': [UNISCHEMA_KEY.decode(), b'dataset-toolkit.unischema.v1' in md]}
    return out
