from petastorm.spark import SparkDatasetConverter, make_spark_converter
from petastorm import TransformSpec


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)
    df = spark.range(0, 3, 1, 1).selectExpr(
        "id", "concat('ü', id) as s", "date'2020-01-02' as d", "timestamp'2020-01-02 03:04:05' as t",
        "id = 1 as flag", "case when id > 0 then id end as maybe", "array(cast(id as int), 7) as arr", "binary('ab') as raw")
    conv = make_spark_converter(df)
    with conv.make_tf_dataset(batch_size=2, num_epochs=1, workers_count=1) as ds:
        spec = {k: [v.dtype.name, str(v.shape)] for k, v in ds.element_spec._asdict().items()}
        rows = [{k: repr(v.numpy().tolist()) for k, v in b._asdict().items()} for b in ds]
    return {"spec": spec, "rows": rows}
