# Databricks notebook source
# MAGIC %md
# MAGIC # TensorFlow and Keras: from a Spark DataFrame to distributed training (for Petastorm)
# MAGIC
# MAGIC Spark prepares a table of handwritten digits. A converter writes it once to a cache
# MAGIC directory, and Keras trains from there: on one node, in the trials of a search, and in
# MAGIC several processes under `MultiWorkerMirroredStrategy`.

# COMMAND ----------

# MAGIC %pip install "petastorm[tf]==0.13.1" hyperopt matplotlib scikit-learn

# COMMAND ----------

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # show only errors
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # same rounding on every machine

# If a library is missing, run the cell above and restart Python.
import hyperopt, matplotlib, pyspark, sklearn, tensorflow

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cache directory
# MAGIC
# MAGIC Change only this line. The driver and the workers must both reach the directory: on a
# MAGIC cluster, use a volume, `file:///Volumes/<catalog>/<schema>/<volume>/cache`, or DBFS,
# MAGIC `file:///dbfs/tmp/<you>/cache`.

# COMMAND ----------

CACHE = "file:///tmp/examples-cache"

# COMMAND ----------

from petastorm.spark import SparkDatasetConverter, make_spark_converter
from pyspark.sql import SparkSession

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, CACHE)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The rows
# MAGIC
# MAGIC The table has 1,797 images of 8 by 8 pixels, each stored as an array of numbers. A tenth of
# MAGIC the images are held out.

# COMMAND ----------

from sklearn.datasets import load_digits

digits = load_digits()
rows = [
    (number, (pixels / 16).tolist(), int(label))
    for number, (pixels, label) in enumerate(zip(digits.data, digits.target))
]
df = spark.createDataFrame(rows, "number LONG, pixels ARRAY<FLOAT>, label LONG")
df = df.repartition(4, "number")

converter_train = make_spark_converter(df.where("number % 10 > 0"))
converter_val = make_spark_converter(df.where("number % 10 = 0"))
print(f"{len(converter_train)} rows to train on, {len(converter_val)} held out")

# COMMAND ----------

# MAGIC %md
# MAGIC ## One node
# MAGIC
# MAGIC `make_tf_dataset` returns a `tf.data.Dataset` of named tuples with a field for each column.
# MAGIC Epochs are not separated, so Keras has to know how many steps an epoch
# MAGIC has. The held-out rows fit into one batch.

# COMMAND ----------

import keras
import tensorflow as tf

BATCH_SIZE = 64


def pixels_and_label(row):
    return tf.reshape(row.pixels, (-1, 64)), row.label


def new_model():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def fit(learning_rate, epochs=5):
    """Return the losses and accuracies after each epoch."""
    model = new_model()
    model.compile(
        keras.optimizers.Adam(learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    with converter_train.make_tf_dataset(
        batch_size=BATCH_SIZE, num_epochs=epochs, seed=1
    ) as dataset:
        return model.fit(
            dataset.map(pixels_and_label),
            steps_per_epoch=len(converter_train) // BATCH_SIZE,
            epochs=epochs,
            validation_data=held_out,
            shuffle=False,
            verbose=0,
        ).history


with converter_val.make_tf_dataset(batch_size=len(converter_val), num_epochs=1) as dataset:
    held_out = pixels_and_label(next(iter(dataset)))
history = fit(learning_rate=0.005)
print(f"accuracy {history['val_accuracy'][-1]:.2f} on digits that it has not seen")

# COMMAND ----------

import matplotlib.pyplot as plt

plt.figure(figsize=(5, 2.5))
epochs = range(1, 6)
plt.plot(epochs, history["loss"], label="while training")
plt.plot(epochs, history["val_loss"], label="on digits held out")
plt.xticks(epochs)
plt.xlabel("epoch")
plt.ylabel("loss")
plt.legend()
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## The same with mdstorm alone
# MAGIC
# MAGIC The cells above run on both libraries. mdstorm can also make the pairs of features and
# MAGIC labels that Keras expects, and it ends each epoch. Then neither `map` nor `steps_per_epoch`
# MAGIC is needed:
# MAGIC
# MAGIC ```python
# MAGIC with converter_train.make_tf_dataset(
# MAGIC     batch_size=BATCH_SIZE, num_epochs=1, seed=1, features="pixels", labels="label"
# MAGIC ) as dataset:
# MAGIC     model.fit(dataset, epochs=5, shuffle=False)
# MAGIC ```
# MAGIC
# MAGIC `features=["x", "y"]` makes a dict of tensors, and with `stack=True` one tensor.

# COMMAND ----------

# MAGIC %md
# MAGIC ## Search
# MAGIC
# MAGIC The trials of Hyperopt run one after another on the driver. With `trials=SparkTrials()` they
# MAGIC run as Spark tasks, as in the PyTorch notebook.

# COMMAND ----------

import numpy as np
from hyperopt import Trials, fmin, hp, tpe

trials = Trials()
best = fmin(
    lambda learning_rate: -fit(learning_rate, epochs=2)["val_accuracy"][-1],
    hp.loguniform("learning_rate", np.log(1e-4), np.log(1e-1)),
    algo=tpe.suggest,
    max_evals=3,
    trials=trials,
    rstate=np.random.default_rng(1),
    show_progressbar=False,
)
print(f"{len(trials.trials)} trials; the best has accuracy {-min(trials.losses()):.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Distributed
# MAGIC
# MAGIC A barrier stage of Spark starts the workers together, and they exchange their
# MAGIC addresses. Each reads its share of the rows, given by `cur_shard` and `shard_count`.
# MAGIC `distribute_datasets_from_function` does not divide the rows again.
# MAGIC
# MAGIC Keras 3's `fit` does not run under this strategy, so the training loop is written out.

# COMMAND ----------

import json
import socket

from pyspark import BarrierTaskContext


def train_on_worker(converter, learning_rate, steps):
    task = BarrierTaskContext.get()
    with socket.create_server(("", 0)) as free:
        host = task.getTaskInfos()[task.partitionId()].address.partition(":")[0]
        addresses = task.allGather(f"{host}:{free.getsockname()[1]}")
    worker = {"type": "worker", "index": task.partitionId()}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": worker})
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # use no GPUs
    tf.get_logger().setLevel("ERROR")  # AutoGraph warns about pickled functions

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = new_model()
        weights = [variable.value for variable in model.trainable_variables]

    @tf.function
    def train_step(pixels, labels):
        def replica_step(pixels, labels):
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(pixels))
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, weights)
            context = tf.distribute.get_replica_context()
            for weight, gradient in zip(weights, context.all_reduce("MEAN", gradients)):
                weight.assign_sub(learning_rate * gradient)

        strategy.run(replica_step, (pixels, labels))

    with converter.make_tf_dataset(
        batch_size=BATCH_SIZE, cur_shard=task.partitionId(), shard_count=len(addresses), seed=1
    ) as dataset:
        dataset = dataset.map(pixels_and_label)
        batches = iter(strategy.distribute_datasets_from_function(lambda _: dataset))
        for _ in range(steps):
            train_step(*next(batches))
    return [weight.numpy() for weight in weights]


converter = converter_train  # the only object of the notebook that is sent to the tasks
tasks = spark.sparkContext.parallelize(range(2), 2).barrier()
on_workers = tasks.mapPartitions(lambda _: [train_on_worker(converter, 0.2, 100)]).collect()
difference = max(np.abs(one - other).max() for one, other in zip(*on_workers))
print(f"largest difference between the weights of both workers: {difference:.2f}")

model = new_model()
model.set_weights(on_workers[0])
pixels, labels = held_out
right = np.argmax(model(pixels), axis=1) == labels.numpy()
print(f"accuracy {right.mean():.2f} after training on two workers")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up
# MAGIC
# MAGIC The copies stay until the driver ends, or until they are deleted.

# COMMAND ----------

converter_train.delete()
converter_val.delete()
