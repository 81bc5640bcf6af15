# Databricks notebook source
# MAGIC %md
# MAGIC # PyTorch: from a Spark DataFrame to distributed training (for Petastorm)
# MAGIC
# MAGIC Spark prepares a table of handwritten digits. A converter writes it once to a cache
# MAGIC directory, and PyTorch trains from there: on one node, in the trials of a search, and in
# MAGIC several processes.

# COMMAND ----------

# MAGIC %pip install "petastorm[torch]==0.13.1" hyperopt matplotlib scikit-learn

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import hyperopt, matplotlib, pyspark, sklearn, torch

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
# MAGIC The table has 1,797 images of 8 by 8 pixels, each stored as the bytes of its pixels. A tenth
# MAGIC of the images are held out. `make_spark_converter` runs a DataFrame's plan once and keeps
# MAGIC the result in the cache directory, so the same plan is not run again.

# COMMAND ----------

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
rows = [
    (number, image.astype(np.uint8).tobytes(), int(label))
    for number, (image, label) in enumerate(zip(digits.images, digits.target))
]
df = spark.createDataFrame(rows, "number LONG, image BINARY, label LONG").repartition(4, "number")

converter_train = make_spark_converter(df.where("number % 10 > 0"))
converter_val = make_spark_converter(df.where("number % 10 = 0"))
print(f"{len(converter_train)} rows to train on, {len(converter_val)} held out")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What a batch is made of
# MAGIC
# MAGIC A `TransformSpec` turns the stored columns into features, many rows at a time as a pandas
# MAGIC DataFrame, and declares the resulting fields.

# COMMAND ----------

from petastorm import TransformSpec


def pixels_of(rows):
    rows["features"] = rows["image"].map(
        lambda image: np.frombuffer(image, np.uint8).astype(np.float32) / 16
    )
    return rows[["features", "label"]]


TO_FEATURES = TransformSpec(
    pixels_of,
    edit_fields=[("features", np.float32, (64,), False)],
    selected_fields=["features", "label"],
)
BATCH_SIZE = 64

# COMMAND ----------

with converter_train.make_torch_dataloader(
    transform_spec=TO_FEATURES, batch_size=BATCH_SIZE
) as loader:
    batch = next(iter(loader))
print({name: (tuple(column.shape), column.dtype) for name, column in batch.items()})

# COMMAND ----------

# MAGIC %md
# MAGIC ## One node
# MAGIC
# MAGIC In each of `num_epochs` epochs, every row is read once. Without `num_epochs`, a loader
# MAGIC repeats the rows until the loop ends.

# COMMAND ----------

import torch
from torch import nn


def new_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model, optimizer, batches):
    for batch in batches:
        loss = nn.functional.cross_entropy(model(batch["features"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def trained_model(learning_rate, epochs=5):
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    with converter_train.make_torch_dataloader(
        transform_spec=TO_FEATURES, batch_size=BATCH_SIZE, num_epochs=epochs, seed=1
    ) as loader:
        train(model, optimizer, loader)
    return model


model = trained_model(learning_rate=0.005)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What the model has learned
# MAGIC
# MAGIC The picture shows twelve of the held-out digits, each below the model's prediction.

# COMMAND ----------


def accuracy_of(model):
    right = 0
    with converter_val.make_torch_dataloader(
        transform_spec=TO_FEATURES, batch_size=BATCH_SIZE, num_epochs=1
    ) as loader:
        for batch in loader:
            right += int((model(batch["features"]).argmax(1) == batch["label"]).sum())
    return right / len(converter_val)


print(f"accuracy {accuracy_of(model):.2f} on digits that it has not seen")

# COMMAND ----------

import matplotlib.pyplot as plt

with converter_val.make_torch_dataloader(
    transform_spec=TO_FEATURES, batch_size=12, shuffle_row_groups=False
) as loader:
    images = next(iter(loader))["features"]
_, axes = plt.subplots(1, 12, figsize=(8, 1))
for axis, image, said in zip(axes, images, model(images).argmax(1)):
    axis.imshow(image.reshape(8, 8), cmap="gray_r")
    axis.set_title(int(said))
    axis.axis("off")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Search
# MAGIC
# MAGIC Hyperopt's trials run as Spark tasks. The converter is pickled along with the function. The
# MAGIC converter's pickle is small, because it stores only where the rows are and how many there
# MAGIC are.

# COMMAND ----------

from hyperopt import STATUS_OK, SparkTrials, fmin, hp, tpe


def objective(learning_rate):
    return {"loss": -accuracy_of(trained_model(learning_rate, epochs=2)), "status": STATUS_OK}


trials = SparkTrials(parallelism=2)
best = fmin(
    objective,
    hp.loguniform("learning_rate", np.log(1e-4), np.log(1e-1)),
    algo=tpe.suggest,
    max_evals=4,
    trials=trials,
    rstate=np.random.default_rng(1),
    show_progressbar=False,
)
print(f"{len(trials.trials)} trials; the best has accuracy {-min(trials.losses()):.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Distributed
# MAGIC
# MAGIC `TorchDistributor` starts the processes, here two on this machine; with `local_mode=False`
# MAGIC they are Spark tasks on the workers of the cluster. Each process reads its share of the
# MAGIC rows, given by `cur_shard` and `shard_count`. Shares may differ by a row, but all processes
# MAGIC must take the same number of steps, so each process stops after a fixed number of steps.

# COMMAND ----------

from itertools import islice

from pyspark.ml.torch.distributor import TorchDistributor


def train_distributed(converter, learning_rate, epochs):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")  # "nccl" on GPUs
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(new_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    with converter.make_torch_dataloader(
        transform_spec=TO_FEATURES,
        batch_size=BATCH_SIZE,
        num_epochs=epochs + 1,  # enough for a process with fewer rows than the others
        cur_shard=rank,
        shard_count=size,
        seed=1,
    ) as loader:
        train(model, optimizer, islice(loader, epochs * len(converter) // (BATCH_SIZE * size)))
    weights = model.module.state_dict()
    del model  # free it before its process group is destroyed
    dist.destroy_process_group()
    return weights


distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
weights = distributor.run(train_distributed, converter_train, best["learning_rate"], 5)

model = new_model()
model.load_state_dict(weights)
print(f"accuracy {accuracy_of(model):.2f} after training in two processes")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up
# MAGIC
# MAGIC The copies stay until the driver ends, or until they are deleted.

# COMMAND ----------

converter_train.delete()
converter_val.delete()
