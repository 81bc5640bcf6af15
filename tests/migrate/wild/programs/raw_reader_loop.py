from petastorm import make_batch_reader
import pandas as pd


def to_pandas(url, **kw):
    frames = []
    with make_batch_reader(url, **kw) as reader:
        for nt in reader:
            frames.append(pd.DataFrame(nt._asdict()))
        print(reader.diagnostics, reader.batched_output)
        assert reader.last_row_consumed
        reader.reset()
        again = sum(len(x.id) for x in reader)
    return pd.concat(frames), again


def main(spark, directory):
    spark.range(0, 8, 1, 2).selectExpr("id", "concat('s', id) s", "id / 2 as half", "id > 3 as big").write.parquet(directory + "/t")
    frame, again = to_pandas("file://" + directory + "/t", shuffle_row_groups=False, num_epochs=1)
    return {"cols": list(frame.columns), "types": [str(t) for t in frame.dtypes], "rows": frame.sort_values("id").values.tolist(), "again": again}
