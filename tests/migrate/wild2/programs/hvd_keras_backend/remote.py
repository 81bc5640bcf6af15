import contextlib


class empty_batch_reader(object):
    def __enter__(self):
        return None

    def __exit__(self, type, value, traceback):
        pass


def make_remote_trainer(params, train_url, val_url):
    transform_fn = params.get('transformation_fn')
    pool = params.get('reader_pool_type')

    def train():
        # imports happen on the worker
        from petastorm import TransformSpec, make_reader, make_batch_reader
        from petastorm.tf_utils import make_petastorm_dataset
        import os
        import tensorflow as tf
        rank, size = int(os.environ['HOROVOD_RANK']), int(os.environ['HOROVOD_SIZE'])
        reader_factory, is_batch = make_batch_reader, True
        transform_spec = TransformSpec(transform_fn) if transform_fn else None
        with reader_factory(train_url, num_epochs=1, cur_shard=rank, reader_pool_type=pool,
                            workers_count=params.get('train_reader_num_workers'), shard_count=size,
                            hdfs_driver='libhdfs', schema_fields=params.get('feature_cols') + params.get('label_cols'),
                            storage_options=None, transform_spec=transform_spec) as train_reader, \
                reader_factory(val_url, num_epochs=None, workers_count=1) if val_url else empty_batch_reader() as val_reader:
            ds = make_petastorm_dataset(train_reader)
            if is_batch:
                ds = ds.apply(tf.data.experimental.unbatch())
            ds = ds.batch(params.get('batch_size')).map(lambda row: (row.x, row.y))
            n, s = 0, 0.0
            for x, y in ds:
                n += int(x.shape[0]); s += float(tf.reduce_sum(y))
            v = make_petastorm_dataset(val_reader).take(3)
            return [n, s, sum(int(b.x.shape[0]) for b in v) >= 3]
    return train
