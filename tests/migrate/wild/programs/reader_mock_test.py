import numpy as np
from petastorm.test_util.reader_mock import ReaderMock, schema_data_generator_example
from petastorm.generator import generate_datapoint
from petastorm.unischema import Unischema, UnischemaField
from petastorm.pytorch import DataLoader

TestSchema = Unischema("TestSchema", [UnischemaField("id", np.int32, (), None, False), UnischemaField("m", np.float32, (2,), None, False)])


def constant(schema):
    return {"id": np.int32(1), "m": np.zeros(2, np.float32)}


def main(spark, directory):
    reader = ReaderMock(TestSchema, constant)
    row = next(reader)
    point = generate_datapoint(TestSchema)
    return {"row": [int(row.id), row.m.tolist()], "point": sorted(point if isinstance(point, dict) else point._asdict())}
