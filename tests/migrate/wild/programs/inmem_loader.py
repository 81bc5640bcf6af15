from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader, InMemBatchedDataLoader


def main(spark, directory):
    spark.range(0, 10, 1, 1).selectExpr("id", "float(id) / 4 as q").write.parquet(directory + "/p")
    url = f"file://{directory}/p"
    loader = InMemBatchedDataLoader(make_batch_reader(url, num_epochs=1), batch_size=4, num_epochs=2,
                                    rows_capacity=100, shuffle=True, seed=7)
    mem = [b["id"].tolist() for b in loader]
    with BatchedDataLoader(make_batch_reader(url, num_epochs=2), batch_size=6, shuffling_queue_capacity=8) as loader:
        batched = [i for b in loader for i in b["id"].tolist()]
    return {"sizes": [len(m) for m in mem], "first": sorted(sum(mem[:3], [])), "batched": sorted(batched)}
