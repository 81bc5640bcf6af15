"""`import petastorm`, attribute chains on it, and a function that hides the name."""
import petastorm
import petastorm.predicates as peta_pred
import petastorm.pytorch


def is_hidden(petastorm):
    return petastorm.spark


def main(spark, directory):
    url = "file://" + directory + "/numbers"
    spark.range(20).toDF("n").coalesce(1).write.parquet(url)
    even = peta_pred.in_lambda(["n"], lambda n: n % 2 == 0)
    reader = petastorm.make_batch_reader(url, num_epochs=1, predicate=even, reader_pool_type="dummy")
    with petastorm.pytorch.BatchedDataLoader(reader, batch_size=5) as loader:
        found = [batch["n"].tolist() for batch in loader]

    class Other:
        spark = "mine"

    return [found, is_hidden(Other), petastorm.__name__ in ("petastorm", "mdstorm")]
