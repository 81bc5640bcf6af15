from petastorm import make_reader, make_batch_reader
from petastorm.etl.dataset_metadata import infer_or_load_unischema, get_schema
from petastorm.unischema import Unischema
import pyarrow.parquet as pq
import warnings


def main(spark, directory):
    spark.range(0, 3, 1, 1).selectExpr("id", "concat('a', id) as s", "array(id) as v").write.parquet(directory + "/plain")
    url = "file://" + directory + "/plain"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with make_reader(url, num_epochs=1) as r:
            rows = sorted([int(x.id), str(x.s), [int(i) for i in x.v]] for x in r)
    with make_batch_reader(url) as r:
        names = {k: [f.numpy_dtype.__name__, list(f.shape), f.nullable] for k, f in r.schema.fields.items()}
    return {"rows": rows, "schema": names}
