import numpy as np

from petastorm import make_reader
from petastorm.etl import dataset_metadata as md
from petastorm import unischema
from rank_views import BaseSchema
import rank_views


def write_pairs(spark, url, n=7):
    plain = unischema.Unischema('Pairs', list(BaseSchema.fields.values()))
    with md.materialize_dataset(spark, url, plain, row_group_size_mb=1, use_summary_metadata=False):
        rows = [unischema.dict_to_spark_row(plain, {'qid': i, 'q_len': i + 1, 'doc_vec': np.array([i, -1.0])})
                for i in range(n)]
        spark.createDataFrame(rows, plain.as_spark_schema()).repartition(2).write.parquet(url)


def read_pairs(url, view):
    with make_reader(url, schema_fields=list(view.fields.values()), reader_pool_type='thread', workers_count=3) as r:
        return sorted([str(v) if not hasattr(v, 'tolist') else v.tolist() for _, v in sorted(x._asdict().items())] for x in r)
