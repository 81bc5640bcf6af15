import glob, os, pickle, shutil, logging
import pyarrow.parquet as pq
from urllib.parse import urlparse
from petastorm.spark import make_spark_converter, SparkDatasetConverter
from petastorm.spark import spark_dataset_converter as sdc
from petastorm.spark.spark_dataset_converter import register_delete_dir_handler

logging.getLogger('petastorm.spark.spark_dataset_converter').setLevel(logging.ERROR)
DELETED = []


def main(spark, directory):
    root = 'file://' + directory + '/conv/cache'
    spark.conf.set('petastorm.spark.converter.parentCacheDirUrl', root)
    assert spark.conf.get(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF) == root
    df = spark.range(10).selectExpr('id', 'cast(id as double) as x', 'array(cast(id as double)) as arr')
    a = make_spark_converter(df)
    b = make_spark_converter(df)
    c = make_spark_converter(df, dtype=None, compression_codec='snappy', parquet_row_group_size_bytes=1024 * 1024)
    out = {'same': [a.cache_dir_url == b.cache_dir_url, a.cache_dir_url == c.cache_dir_url]}
    path = urlparse(a.cache_dir_url).path
    table = pq.ParquetDataset(sorted(glob.glob(path + '/*.parquet'))).read()
    out['schema'] = {f.name: str(f.type) for f in table.schema}
    out['rows'] = [table.num_rows, spark.read.parquet(c.cache_dir_url).dtypes]
    clone = pickle.loads(pickle.dumps(c))
    out['pickled'] = [len(clone), clone.file_urls == c.file_urls, type(clone) is SparkDatasetConverter]
    with clone.make_torch_dataloader(num_epochs=1, batch_size=4) as dl:
        first = list(dl)[0]
        out['dtypes'] = [str(first[k].dtype) for k in ('id', 'x', 'arr')]
    register_delete_dir_handler(lambda url: DELETED.append(url) or shutil.rmtree(urlparse(url).path))
    try:
        a.delete()
    finally:
        register_delete_dir_handler(None)
    out['deleted'] = [len(DELETED), os.path.exists(path)]
    c.delete()
    errs = []
    for kw in ({'compression_codec': 'zip'}, {'dtype': 'float8'}):
        try:
            make_spark_converter(df, **kw)
        except Exception as e:
            errs.append(type(e).__name__)
    out['errs'] = errs
    spark.conf.unset('petastorm.spark.converter.parentCacheDirUrl')
    try:
        make_spark_converter(df)
    except ValueError as e:
        out['unset'] = 'parentCacheDirUrl' in str(e)
    return out
