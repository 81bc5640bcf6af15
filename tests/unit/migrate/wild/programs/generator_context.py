from contextlib import contextmanager
import petastorm.spark as ps


@contextmanager
def epoch(converter, **context_args):
    with converter.make_torch_dataloader(**context_args) as dl:
        yield dl


def batches(converter, **kw):
    with converter.make_torch_dataloader(**kw) as loader:
        yield from loader


def main(spark, directory):
    spark.conf.set(ps.SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, 'file://' + directory)
    conv = ps.make_spark_converter(spark.range(0, 9, 1, 1).selectExpr('id', 'id * 2 as twice'))
    context_args = dict(batch_size=4, num_epochs=2, shuffle_row_groups=False)
    context_args['workers_count'] = 1
    with epoch(conv, **context_args) as e:
        first = [b['twice'].tolist() for b in e]
    second = [b['id'].tolist() for b in batches(conv, batch_size=5, num_epochs=1, workers_count=1)]
    return {'first': first, 'second': second, 'type': type(conv).__name__}
