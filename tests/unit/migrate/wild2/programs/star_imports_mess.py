from petastorm import *
from petastorm.codecs import *
from petastorm.unischema import *
from petastorm.predicates import *
from petastorm.transform import *
from petastorm.etl.dataset_metadata import *
from petastorm.pytorch import *
import petastorm as p, numpy as np, petastorm.codecs as cdx, petastorm.reader as rd; import petastorm.predicates
from pyspark.sql.types import IntegerType, StringType
if True: from petastorm import make_reader as _open; \
    from petastorm.ngram import NGram
Sch=Unischema("Mess",[UnischemaField("i",np.int32,(),cdx.ScalarCodec(IntegerType()),False),UnischemaField('petastorm',np.str_,(),ScalarCodec(StringType()),False)])
petastorm_url=None
def go(**petastorm_kwargs):
    """uses petastorm; 'petastorm_kwargs' go to petastorm.make_reader"""
    with (_open)(petastorm_url, **petastorm_kwargs) as r: return sorted((int(x.i), str(x.petastorm)) for x in r)
def main(spark, directory):
    global petastorm_url; petastorm_url = "file://" + directory + "/petastorm/mess"
    with materialize_dataset(spark, petastorm_url, Sch, 1): spark.createDataFrame([dict_to_spark_row(Sch, {'i': i, 'petastorm': 'p%s' % i}) for i in range(5)], Sch.as_spark_schema()).coalesce(1).write.parquet(petastorm_url)
    return [go(), go(predicate=in_set([2], 'i')), go(predicate=petastorm.predicates.in_lambda(['i'], lambda i: i > 3), transform_spec=TransformSpec(lambda r: r)), 
        len(list(DataLoader(p.make_reader(petastorm_url), batch_size=2))), rd.make_reader is p.make_reader, NGram.__name__]
