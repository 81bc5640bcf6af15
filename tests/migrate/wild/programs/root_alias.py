import petastorm as pst
import petastorm.predicates as peta_pred
from petastorm.spark import spark_dataset_converter as sdc


def main(spark, directory):
    spark.range(0, 10, 1, 2).selectExpr("id", "id % 3 as k").write.parquet(directory + "/d")
    url = "file://" + directory + "/d"
    out = {}
    with pst.make_batch_reader(url, predicate=peta_pred.in_lambda(["k"], lambda k: k.isin([1, 2]))) as r:
        out["set"] = sorted(int(i) for b in r for i in b.id)
    with pst.make_batch_reader(url, predicate=peta_pred.in_lambda(["id"], lambda id: id > 6)) as r:
        out["lambda"] = sorted(int(i) for b in r for i in b.id)
    with pst.make_reader(url, predicate=peta_pred.in_negate(peta_pred.in_set([0], "k"))) as r:
        out["negate"] = sorted(int(b.id) for b in r)
    spark.conf.set(sdc.SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory + "/c")
    c = sdc.make_spark_converter(spark.range(3))
    out["row_group"] = sdc.DEFAULT_ROW_GROUP_SIZE_BYTES
    out["len"] = len(c)
    return out
