from libs.petastorm_ext import read_ids, EXTENSION_OF
from libs import petastorm_ext
from app.train import Trainer


def main(spark, directory):
    spark.range(6).selectExpr('id', 'id * 1.0D as v').write.parquet(directory + '/mono')
    url = 'file://' + directory + '/mono'
    return [read_ids(url), petastorm_ext.readers.__name__.split('.')[-1], Trainer(url).fit(), EXTENSION_OF is not None]
