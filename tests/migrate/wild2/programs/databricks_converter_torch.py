# Databricks notebook source
# Simplify data conversion from Spark to PyTorch
# exported by hand from our workspace; dbutils is faked when absent

# COMMAND ----------

from pyspark.sql.functions import col
from petastorm.spark import SparkDatasetConverter, make_spark_converter
import io
import numpy as np
import torch
from functools import partial
from petastorm import TransformSpec

try:
    dbutils  # noqa: F821
except NameError:
    dbutils = None

BATCH_SIZE = 4
NUM_EPOCHS = 2

# COMMAND ----------


def preprocess(grayscale):
    """
    Preprocess an image file bytes for MobileNetV2.
    """
    image = np.frombuffer(grayscale, dtype=np.uint8).astype(np.float32)
    return image.reshape(2, 2) / 255.0


def transform_row(is_train, pd_batch):
    """
    The input and output of this function must be pandas dataframes.
    Do data augmentation for the training dataset only.
    """
    transformers = [preprocess]
    if is_train:
        transformers.append(lambda a: a * 2)
    def trans(x):
        for t in transformers:
            x = t(x)
        return x
    pd_batch['features'] = pd_batch['content'].map(trans)
    pd_batch = pd_batch.drop(labels=['content'], axis=1)
    return pd_batch


def get_transform_spec(is_train=True):
    # Note that the output shape of the `TransformSpec` is not automatically known by petastorm,
    # so we need to specify the shape for new columns in `edit_fields` and specify the order of
    # the output columns in `selected_fields`.
    return TransformSpec(partial(transform_row, is_train),
                         edit_fields=[('features', np.float32, (2, 2), False)],
                         selected_fields=['features', 'label_index'])


# COMMAND ----------


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory + "/cache")
    rows = [(bytearray([i, i + 1, i + 2, i + 3]), i % 3) for i in range(12)]
    df = spark.createDataFrame(rows, ['content', 'label']) \
        .select(col('content'), col('label').cast('long').alias('label_index'))
    df_train, df_val = df.limit(8), df.limit(4)
    converter_train = make_spark_converter(df_train)
    converter_val = make_spark_converter(df_val)
    out = {'len': [len(converter_train), len(converter_val)]}
    steps_per_epoch = len(converter_train) // BATCH_SIZE

    with converter_train.make_torch_dataloader(transform_spec=get_transform_spec(is_train=True),
                                               batch_size=BATCH_SIZE) as train_dataloader, \
         converter_val.make_torch_dataloader(transform_spec=get_transform_spec(is_train=False),
                                             batch_size=BATCH_SIZE, num_epochs=1) as val_dataloader:
        train_dataloader_iter = iter(train_dataloader)
        total, labels = 0.0, []
        for step in range(steps_per_epoch * NUM_EPOCHS):
            pd_batch = next(train_dataloader_iter)
            total += float(pd_batch['features'].sum())
            labels += pd_batch['label_index'].tolist()
        out['train'] = [round(total, 3), sorted(labels)]
        out['val'] = [str(tuple(b['features'].shape)) for b in val_dataloader]
        out['dtype'] = str(pd_batch['features'].dtype)

    # COMMAND ----------
    converter_train.delete()
    converter_val.delete()
    return out
