import tensorflow as tf
from petastorm.spark import SparkDatasetConverter, make_spark_converter


def train_and_evaluate(converter_train, converter_val, bs=5):
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    with converter_train.make_tf_dataset(batch_size=bs, workers_count=1) as train_ds, \
         converter_val.make_tf_dataset(batch_size=bs, workers_count=1) as val_ds:
        pair = lambda row: (tf.reshape(row.x, (-1, 1)), row.y)
        train_ds = train_ds.map(pair)
        val_ds = val_ds.map(pair)
        steps = max(1, len(converter_train) // bs)
        hist = model.fit(train_ds, steps_per_epoch=steps, epochs=2, verbose=0,
                         validation_data=val_ds, validation_steps=max(1, len(converter_val) // bs))
    return sorted(hist.history), steps


def main(spark, directory):
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{directory}/cache/")
    df = spark.range(0, 30, 1, 1).selectExpr("id / 30 as x", "id / 15 as y")
    tr, va = df.where("x < 0.8"), df.where("x >= 0.8")
    keys, steps = train_and_evaluate(make_spark_converter(tr), make_spark_converter(va))
    return {"history": keys, "steps": steps}
