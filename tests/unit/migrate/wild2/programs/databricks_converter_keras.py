# Databricks notebook source
# DBTITLE 1,Simplify data conversion from Spark to TensorFlow
from petastorm.spark import SparkDatasetConverter, make_spark_converter

import os
import tensorflow as tf
from tensorflow import keras
import petastorm

# COMMAND ----------

# Set a cache directory on DBFS FUSE for intermediate data.


def get_model(lr=0.001):
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer='sgd', loss='mse')
    return model


def train_and_evaluate(converter_train, converter_val, batch_size=4):
    model = get_model()
    with converter_train.make_tf_dataset(batch_size=batch_size) as train_dataset, \
            converter_val.make_tf_dataset(batch_size=batch_size, num_epochs=None) as val_dataset:
        # tf.keras only accept tuples, not namedtuples
        train_dataset = train_dataset.map(lambda x: (x.features, x.label))
        val_dataset = val_dataset.map(lambda x: (x.features, x.label))
        steps_per_epoch = len(converter_train) // batch_size
        hist = model.fit(train_dataset, steps_per_epoch=steps_per_epoch, epochs=1,
                         validation_data=val_dataset,
                         validation_steps=max(1, len(converter_val) // batch_size), verbose=0)
    return sorted(hist.history)


def main(spark, directory):
    cache = 'file://' + os.path.join(directory, 'petastorm', 'cache')
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, cache)
    from pyspark.ml.linalg import Vectors
    df = spark.createDataFrame([(Vectors.dense([i, 1., 2.]), float(i)) for i in range(20)], ['features', 'label'])
    a, b = df.limit(12), df.filter('label >= 12')
    converter_train, converter_val = make_spark_converter(a), make_spark_converter(b)
    keys = train_and_evaluate(converter_train, converter_val)
    with converter_val.make_tf_dataset(num_epochs=1, batch_size=3) as ds:
        shapes = [str(x.features.shape) for x in ds]
        spec = {k: str(v.dtype) for k, v in ds.element_spec._asdict().items()}
    ok = all(f.startswith('file:') and f.endswith('.parquet') for f in converter_train.file_urls)
    under = converter_train.cache_dir_url.startswith(cache)
    for c in (converter_train, converter_val):
        c.delete()
    return [keys, shapes, spec, ok, under, bool(petastorm.__version__)]
