from petastorm import make_batch_reader


def order(url, seed, **kw):
    with make_batch_reader(url, seed=seed, shuffle_rows=True, shuffle_row_groups=True, workers_count=1, **kw) as r:
        return [int(i) for b in r for i in b.id]


def main(spark, directory):
    spark.range(0, 30, 1, 3).write.parquet(directory + "/t")
    url = "file://" + directory + "/t"
    a, b = order(url, 42), order(url, 42)
    return {"same": a == b, "rows": sorted(a), "shuffled": a != sorted(a),
            "drop": sorted(i for i in order_drop(url))}


def order_drop(url):
    with make_batch_reader(url, shuffle_row_drop_partitions=2) as r:
        return [int(i) for b in r for i in b.id]
