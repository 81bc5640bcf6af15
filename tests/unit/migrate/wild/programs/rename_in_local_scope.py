def build(kind):
    if kind == "a":
        from petastorm.pytorch import DataLoader as L
    elif kind == "b":
        from petastorm.pytorch import BatchedDataLoader as L
    else:
        from torch.utils.data import DataLoader as L
    return L


def nested():
    import petastorm.spark as petastorm_spark, petastorm.unischema as u
    def inner():
        nonlocal petastorm_spark
        return petastorm_spark.make_spark_converter.__name__, u.Unischema.__name__
    return inner()


def main(spark, directory):
    return [build(k).__name__ for k in "abc"] + list(nested())
