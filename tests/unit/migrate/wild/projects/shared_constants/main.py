from common import *
from common import loaders as L


def main(spark, directory):
    spark.conf.set(CACHE_KEY, "file://" + directory)
    conv = make_spark_converter(spark.range(0, 4, 1, 1))
    spec = TransformSpec(lambda pdf: pdf[pdf.id != 1])
    with conv.make_torch_dataloader(batch_size=3, num_epochs=1, transform_spec=spec, workers_count=1,
                                    data_loader_fn=L.BatchedDataLoader) as loader:
        return [b["id"].tolist() for b in loader]
