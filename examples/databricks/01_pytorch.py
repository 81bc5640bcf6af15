# Databricks notebook source
# MAGIC %md
# MAGIC # PyTorch: from a Spark DataFrame to distributed training
# MAGIC
# MAGIC Spark prepares a table of handwritten digits. A converter writes it once to a cache
# MAGIC directory, and PyTorch trains from there: on one node, in the trials of a search, and in
# MAGIC several processes.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]" hyperopt scikit-learn

# COMMAND ----------

# If one is missing, run the cell above and restart Python.
import hyperopt, pyspark, sklearn, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cache directory
# MAGIC
# MAGIC Change this line only. The driver and the workers must both reach it: on a cluster a
# MAGIC volume, `file:///Volumes/<catalog>/<schema>/<volume>/cache`, or DBFS,
# MAGIC `file:///dbfs/tmp/<you>/cache`.

# COMMAND ----------

CACHE = "file:///tmp/examples-cache"

# COMMAND ----------

from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()  # on Databricks, the existing session
spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, CACHE)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The rows
# MAGIC
# MAGIC 1,797 images of 8 by 8 pixels, each stored as the bytes of its pixels. A tenth is held
# MAGIC out. `make_spark_converter` runs the plan of a DataFrame once and keeps the result in the
# MAGIC cache directory; the same plan is not run a second time.

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

from mdstorm import TransformSpec


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
# MAGIC A loader repeats the rows forever by default, so an epoch is a number of steps. That way all
# MAGIC processes take the same number of steps, which matters below.

# COMMAND ----------

import torch
from torch import nn


def new_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model, optimizer, batches, steps):
    for _ in range(steps):
        batch = next(batches)
        loss = nn.functional.cross_entropy(model(batch["features"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model, batches, steps):
    right = rows = 0
    with torch.no_grad():
        for _ in range(steps):
            batch = next(batches)
            right += int((model(batch["features"]).argmax(1) == batch["label"]).sum())
            rows += len(batch["label"])
    return right / rows


def train_and_evaluate(learning_rate, epochs=5):
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    with converter_train.make_torch_dataloader(
        transform_spec=TO_FEATURES, batch_size=BATCH_SIZE
    ) as loader:
        train(model, optimizer, iter(loader), epochs * len(converter_train) // BATCH_SIZE)
    with converter_val.make_torch_dataloader(
        transform_spec=TO_FEATURES, batch_size=BATCH_SIZE
    ) as loader:
        return evaluate(model, iter(loader), len(converter_val) // BATCH_SIZE)


accuracy = train_and_evaluate(learning_rate=0.005)
print(f"accuracy {accuracy:.2f} on digits that it has not seen")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Search
# MAGIC
# MAGIC Hyperopt's trials run as Spark tasks. The converter is pickled with the function: it holds
# MAGIC only where the rows are, and how many there are.

# COMMAND ----------

from hyperopt import STATUS_OK, SparkTrials, fmin, hp, tpe


def objective(learning_rate):
    return {"loss": -train_and_evaluate(learning_rate, epochs=2), "status": STATUS_OK}


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
# MAGIC they are Spark tasks on the workers of the cluster. Each reads its share of the rows, given
# MAGIC by `cur_shard` and `shard_count`.

# COMMAND ----------

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
    ) as loader:
        train(model, optimizer, iter(loader), epochs * len(converter) // (BATCH_SIZE * size))
    dist.destroy_process_group()
    return model.module.state_dict()


distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
weights = distributor.run(train_distributed, converter_train, best["learning_rate"], 5)

model = new_model()
model.load_state_dict(weights)
with converter_val.make_torch_dataloader(
    transform_spec=TO_FEATURES, batch_size=BATCH_SIZE
) as loader:
    accuracy = evaluate(model, iter(loader), len(converter_val) // BATCH_SIZE)
print(f"accuracy {accuracy:.2f} after training in two processes")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up
# MAGIC
# MAGIC The copies stay until the driver ends, or until they are deleted.

# COMMAND ----------

converter_train.delete()
converter_val.delete()
