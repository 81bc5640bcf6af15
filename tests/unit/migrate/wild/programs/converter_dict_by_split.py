from petastorm.spark import SparkDatasetConverter, make_spark_converter


class DataFactory:
    """holds converters for each split"""
    converters = {}

    def __init__(self, spark, directory, ratios=(0.7, 0.3)):
        spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory + "/cache")
        df = spark.range(0, 20, 1, 2)
        self.converters = {name: make_spark_converter(df.where(f"id % 10 {op} 7").repartition(2))
                           for name, op in (("train", "<"), ("val", ">="))}

    def __getitem__(self, split):
        return self.converters[split]

    def steps(self, split, bs):
        return max(1, len(self[split]) // bs)

    def __enter__(self):
        self._open = {k: c.make_torch_dataloader(batch_size=4, num_epochs=1, workers_count=1) for k, c in self.converters.items()}
        return {k: m.__enter__() for k, m in self._open.items()}

    def __exit__(self, *exc):
        [m.__exit__(*exc) for m in self._open.values()]
        for c in self.converters.values():
            c.delete()


def main(spark, directory):
    factory = DataFactory(spark, directory)
    steps = {k: factory.steps(k, 4) for k in ("train", "val")}
    with factory as loaders:
        return {"steps": steps, **{k: sorted(i for b in l for i in b["id"].tolist()) for k, l in loaders.items()}}
