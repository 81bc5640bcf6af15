# Databricks notebook source
# MAGIC %md
# MAGIC # Unity Catalog from outside Databricks
# MAGIC
# MAGIC On Databricks, a volume is a directory, `/Volumes/…`, and a cache directory is simply
# MAGIC `file:///Volumes/…`. Elsewhere, such as on a laptop or in a container, mdstorm reads and
# MAGIC writes the same volume through Databricks' Files API, as `dbfs:/Volumes/…`. In both places,
# MAGIC tables are read by name. This notebook shows which credentials the driver and the workers
# MAGIC need outside of Databricks.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch,databricks,delta,s3]" matplotlib

# COMMAND ----------

import os

# If a library is missing, run the cell above and restart Python.
import databricks.sdk, deltalake, matplotlib, mdstorm, pyspark, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The directory and the table
# MAGIC
# MAGIC Change only these lines. `VOLUME` is a directory in a volume that you are allowed to write
# MAGIC to, and `TABLE` is a table with the columns `x` and `y`. If the files of the table are on
# MAGIC Azure, install the extra `azure` instead of `s3`.

# COMMAND ----------

VOLUME = "dbfs:/Volumes/main/default/examples"
TABLE = "main.default.points"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Credentials on the driver
# MAGIC
# MAGIC mdstorm looks for credentials in `DATABRICKS_HOST` and `DATABRICKS_TOKEN`, in
# MAGIC `DATABRICKS_CONFIG_PROFILE` and in `~/.databrickscfg`. A notebook should not hold a token:
# MAGIC set the variables where Jupyter is started, or take them from a secret store. Here, the
# MAGIC variables are first removed from the environment, to show the error.

# COMMAND ----------

names = ("DATABRICKS_HOST", "DATABRICKS_TOKEN")
if not all(name in os.environ for name in names):
    raise RuntimeError(f"set {' and '.join(names)} where this notebook is started")
credentials = {name: os.environ.pop(name) for name in names}

# COMMAND ----------

from mdstorm_backend import MDSWriter, open_dataset


def write_rows():
    columns = {"x": "float32", "y": "float32"}
    with MDSWriter(out=VOLUME, columns=columns, size_limit="2kb", exist_ok=True) as writer:
        for number in range(1000):
            writer.write({"x": number / 1000, "y": 3 * number / 1000})


try:
    write_rows()
except OSError as error:
    print(f"{type(error).__name__}: {error}")

# COMMAND ----------

# MAGIC %md
# MAGIC The error lists where mdstorm looked for credentials, and what to set. No message, pickle or
# MAGIC log of mdstorm contains a secret. With the variables set, the rows are written. The index is
# MAGIC written last, so an unfinished write is not a dataset.

# COMMAND ----------

os.environ.update(credentials)
write_rows()
print(f"{len(open_dataset(VOLUME))} rows in {VOLUME}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Downloads
# MAGIC
# MAGIC Opening the dataset downloads the first of its seven shards, and the first epoch downloads
# MAGIC the others. Later epochs read the shards from this machine.

# COMMAND ----------

import tempfile

import matplotlib.pyplot as plt

from mdstorm_backend import StreamingDataLoader, StreamingDataset

dataset = StreamingDataset(remote=VOLUME, local=tempfile.mkdtemp(), batch_size=50)
loader = StreamingDataLoader(dataset, batch_size=50)
downloaded = []
for _ in range(4):
    rows = sum(len(batch["x"]) for batch in loader)
    downloaded.append(loader.statistics(last_pass=True).downloaded_bytes / 1000)
print(f"{rows} rows in each epoch")

plt.figure(figsize=(5, 2.5))
plt.bar(range(4), downloaded)
plt.xticks(range(4))
plt.xlabel("epoch")
plt.ylabel("kB downloaded")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Credentials on workers
# MAGIC
# MAGIC Workers have their own environment, which lacks variables that the driver sets later. The
# MAGIC workspace refuses a wrong or expired token, and the error on the worker says so.

# COMMAND ----------

import torch
from pyspark.sql import SparkSession

from mdstorm.spark import make_spark_converter

for name in names:
    os.environ.pop(name)
# The workers of this session have no credentials. Spark's own progress bars are hidden.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
os.environ.update(credentials)

converter = make_spark_converter(VOLUME)  # an existing dataset: no job, no copy


def train(converter, environment):
    os.environ.update(environment)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    with converter.make_torch_dataloader(batch_size=50, num_epochs=10) as loader:
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["x"][:, None])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


def train_on_a_worker(environment):
    task = converter  # pickled without secrets: only the location of the rows

    def run(_):
        try:
            return [train(task, environment)]
        except OSError as error:
            return [f"{type(error).__name__}: {error}"]

    return spark.sparkContext.parallelize([0], 1).mapPartitions(run).first()


print(train_on_a_worker({}))

# COMMAND ----------

print(train_on_a_worker({**credentials, "DATABRICKS_TOKEN": "expired"}))

# COMMAND ----------

# MAGIC %md
# MAGIC ## The fix: set the variables inside the training function
# MAGIC
# MAGIC The function takes the credentials as an argument and sets the variables before anything is
# MAGIC read. The same goes for `TorchDistributor`, for Ray and for any other launcher. The argument
# MAGIC is sent with the task, so use a short-lived token, or let the function read the token from a
# MAGIC secret store.

# COMMAND ----------

loss = train_on_a_worker(credentials)
print(f"loss {loss:.4f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## A table by its name
# MAGIC
# MAGIC Reading a table needs neither a path nor Spark. Unity Catalog issues credentials for the
# MAGIC table's files, and mdstorm renews them before they expire. You need `SELECT` on the table,
# MAGIC and `EXTERNAL USE SCHEMA` on its schema, which only the owner of the catalog can grant.

# COMMAND ----------

from mdstorm import make_batch_reader

with make_batch_reader(TABLE, num_epochs=1) as reader:
    print(f"{sum(len(batch.x) for batch in reader)} rows in {reader.dataset.url}")

# COMMAND ----------

# MAGIC %md
# MAGIC The converter of a table sends the table's name to the workers. Each worker logs in to the
# MAGIC workspace, and gets its own credentials for the files.

# COMMAND ----------

converter = make_spark_converter(TABLE)  # read in place: no job, no copy
loss = train_on_a_worker(credentials)
print(f"loss {loss:.4f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What else can go wrong
# MAGIC
# MAGIC If a directory, volume or table is missing, the error names what is missing and what to
# MAGIC check. Every wait has a time limit, and downloads are verified by size, and by hash if the
# MAGIC index has one.

# COMMAND ----------

for path in (f"{VOLUME}/nothing-here", "dbfs:/Volumes/no-such-catalog/default/examples"):
    try:
        open_dataset(path)
    except OSError as error:
        print(f"{type(error).__name__}: {error}")

# COMMAND ----------

try:
    make_batch_reader(f"{TABLE}_v2")
except OSError as error:
    print(f"{type(error).__name__}: {error}")
