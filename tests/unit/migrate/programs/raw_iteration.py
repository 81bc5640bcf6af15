"""A reader without a loader, stopped and joined by hand."""
import numpy as np
from petastorm.reader import Reader, make_batch_reader


def main(spark, directory):
    url = "file://" + directory + "/raw"
    spark.range(8).selectExpr("id", "id / 4 AS x").coalesce(1).write.parquet(url)
    reader = make_batch_reader(dataset_url_or_urls=url, num_epochs=2, shuffle_row_groups=False,
                               reader_pool_type="dummy", schema_fields=["id", "x"])
    try:
        assert isinstance(reader, Reader)
        frames = [{name: np.asarray(values).tolist() for name, values in row._asdict().items()} for row in reader]
        consumed = reader.last_row_consumed
        reader.reset()
        first = next(reader)
    finally:
        reader.stop()
        reader.join()
    return [frames, consumed, sorted(first._fields), reader.batched_output]
