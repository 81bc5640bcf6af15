import warnings
from petastorm import make_batch_reader, make_reader
from petastorm.errors import NoDataAvailableError
from petastorm.etl.dataset_metadata import PetastormMetadataError, get_schema_from_dataset_url
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def attempt(f, *classes):
    try:
        f()
    except classes as error:
        return next(c.__name__ for c in classes if isinstance(error, c))
    return 'no error'


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + '/a')
    url = 'file://' + directory + '/a'
    out = {}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        out['shards'] = attempt(lambda: make_batch_reader(url, cur_shard=1, shard_count=5), NoDataAvailableError)
        out['epochs'] = attempt(lambda: make_batch_reader(url, num_epochs=0), ValueError)
        out['pool'] = attempt(lambda: make_batch_reader(url, reader_pool_type='fibre'), ValueError)
        out['scheme'] = attempt(lambda: make_batch_reader(directory + '/a'), ValueError)
        out['schema'] = attempt(lambda: get_schema_from_dataset_url(url), PetastormMetadataError)
        out['fields'] = attempt(lambda: make_batch_reader(url, schema_fields=['nope']), RuntimeError)
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, directory)
    out['conf'] = attempt(lambda: make_spark_converter(spark.range(2)), ValueError)
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, 'file://' + directory + '/c')
    conv = make_spark_converter(spark.range(2))
    def typo():
        with conv.make_torch_dataloader(batchsize=3) as loader:
            next(iter(loader))
    out['typo'] = attempt(typo, TypeError)
    return out
