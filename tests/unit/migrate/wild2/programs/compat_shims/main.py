from compat import petastorm_compat as pc
from compat.petastorm_compat import make_batch_reader, HAS_SPARK_CONVERTER
import petastorm_helpers
from petastorm_helpers import count_rows as petastorm_count_rows


def main(spark, directory):
    spark.range(6).write.parquet(directory + '/c')
    url = 'file://' + directory + '/c'
    with make_batch_reader(url) as r:
        n = sum(len(b.id) for b in r)
    return [n, petastorm_count_rows(url), HAS_SPARK_CONVERTER, sorted(pc.__all__), petastorm_helpers.PETASTORM_OPTIONS['workers_count'],
            pc.Codec.__name__]
