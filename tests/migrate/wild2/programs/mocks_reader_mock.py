import unittest.mock as mock
import numpy as np
from pyspark.sql.types import FloatType, IntegerType
from petastorm.codecs import NdarrayCodec, ScalarCodec
from petastorm.generator import generate_datapoint
from petastorm.pytorch import DataLoader
from petastorm.test_util.reader_mock import ReaderMock, schema_data_generator_example
from petastorm.unischema import Unischema, UnischemaField

Sc = Unischema('Mocked', [UnischemaField('i', np.int32, (), ScalarCodec(IntegerType()), False),
                          UnischemaField('m', np.float32, (2, 3), NdarrayCodec(), False)])


def train(dataset_url, make_reader=None):
    if make_reader is None:
        from petastorm import make_reader
    with DataLoader(make_reader(dataset_url), batch_size=2) as loader:
        return [str(tuple(b['m'].shape)) for b, _ in zip(loader, range(3))]


def main(spark, directory):
    gen = lambda schema: {'i': np.int32(3), 'm': np.zeros((2, 3), np.float32)}
    reader = ReaderMock(Sc, gen)
    reader.batched_output = False
    shapes = train('file:///nowhere', mock.Mock(return_value=reader))
    with mock.patch('petastorm.reader.make_reader') as pm, mock.patch('petastorm.make_reader', lambda u: reader):
        again = train('file:///nowhere')
        assert not pm.called
    point = generate_datapoint(Sc)
    ex = schema_data_generator_example(Sc)
    return [shapes, again, sorted(point), str(point['m'].shape), str(point['m'].dtype), type(ex).__name__]
