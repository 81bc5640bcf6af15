def batches(converter, size):
    """Yield the batches of one epoch.

    >>> from petastorm.spark import make_spark_converter
    >>> next(batches(make_spark_converter(df), 2))["id"]
    tensor([0, 1])
    """
    from petastorm.spark import SparkDatasetConverter

    assert isinstance(converter, SparkDatasetConverter)
    with converter.make_torch_dataloader(batch_size=size, num_epochs=1) as loader:
        yield from loader
