import tensorflow as tf
from petastorm.reader import Reader, ReaderV2, ShuffleOptions
from petastorm.pytorch import DataLoader
from petastorm.tf_utils import tf_tensors
from petastorm.workers_pool.thread_pool import ThreadPool
from petastorm.workers_pool.process_pool import ProcessPool
from petastorm.cache import NullCache
from petastorm.etl.legacy import depickle_legacy_package_name_compatible


def old(url):
    reader = Reader(url, reader_pool=ThreadPool(10), shuffle_options=ShuffleOptions(True, 3), cache=NullCache(), num_epochs=None)
    with DataLoader(reader, batch_size=16, transform=lambda row: row) as loader:
        for b in loader:
            yield b


def graph(url):
    with Reader(url) as reader, tf.Session() as sess:
        row = tf_tensors(reader, shuffling_queue_capacity=100, min_after_dequeue=50)
        print(sess.run(row.image))
