import numpy as np
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    df = spark.range(0, 4, 1, 1).selectExpr("id", "id > 1 as flag", "case when id <> 2 then cast(id as int) end as maybe",
                                            "cast(id as tinyint) b", "cast(id as smallint) sh", "id / 3 as third",
                                            "map('k', id) as dropped", "array(id > 0, true) flags")
    conv = make_spark_converter(df)
    with conv.make_torch_dataloader(batch_size=3, num_epochs=1, workers_count=1) as loader:
        batches = list(loader)
    try:
        with make_spark_converter(df.selectExpr("cast(id as string) s")).make_torch_dataloader(num_epochs=1, workers_count=1) as l:
            next(iter(l))
        message = None
    except TypeError as e:
        message = "Found in field s" in str(e)
    return {"types": {k: str(v.dtype) for k, v in sorted(batches[0].items())}, "error": message,
            "third": [round(x, 6) for b in batches for x in b["third"].tolist()],
            "maybe": [None if x != x else x for b in batches for x in b["maybe"].tolist()]}
