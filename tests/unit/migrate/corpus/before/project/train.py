from . import Schema, make_spark_converter, petastorm
from .readers import open_oaks


def train(df, url):
    converter = make_spark_converter(df)
    with petastorm.make_batch_reader(url) as reader:
        return Schema, converter, reader, open_oaks(url)
