from pyspark.ml.linalg import Vectors
from pyspark.ml.feature import VectorAssembler
from petastorm.spark import make_spark_converter, SparkDatasetConverter


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f'file://{directory}')
    df = spark.range(0, 4, 1, 1).selectExpr('double(id) a', 'double(id * 2) b', 'id as label')
    vec = VectorAssembler(inputCols=['a', 'b'], outputCol='features').transform(df).select('features', 'label')
    conv = make_spark_converter(vec)
    with conv.make_torch_dataloader(batch_size=4, num_epochs=1, workers_count=1) as dl:
        for batch in dl:
            return {k: [str(v.dtype), v.tolist()] for k, v in batch.items()}
