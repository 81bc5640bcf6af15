# Databricks notebook source
# MAGIC %md
# MAGIC # Parquet files and Delta tables, read in place
# MAGIC
# MAGIC Existing files need no conversion before training. Parquet files are read as they are, Delta
# MAGIC tables in any version. Nothing here needs Spark.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch,delta]" matplotlib

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import deltalake, matplotlib, mdstorm, pyarrow, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The directory
# MAGIC
# MAGIC Change only this line. On Databricks, use a volume,
# MAGIC `file:///Volumes/<catalog>/<schema>/<volume>/data`.

# COMMAND ----------

DATA = "file:///tmp/examples-cache"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Parquet
# MAGIC
# MAGIC The directory has files of 100 rows each, as written by Spark or pyarrow.

# COMMAND ----------

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def orders(start, stop):
    ids = np.arange(start, stop)
    return pa.table({"id": ids, "day": ids // 100, "price": (ids % 7).astype("float32")})


pq.write_to_dataset(orders(0, 1000), DATA.removeprefix("file://") + "/parquet", ["day"])
PARQUET = f"{DATA}/parquet"

# COMMAND ----------

# MAGIC %md
# MAGIC `make_batch_reader` reads row groups, each as a named tuple of arrays. Filters on partitions
# MAGIC skip files without opening them.

# COMMAND ----------

from mdstorm import make_batch_reader

with make_batch_reader(PARQUET, filters=[("day", "=", 3)], num_epochs=1) as reader:
    ids = sorted(int(number) for rows in reader for number in rows.id)
print(f"{len(ids)} rows, {ids[0]} to {ids[-1]}")

# COMMAND ----------

# MAGIC %md
# MAGIC PyTorch gets the rows in batches of any size, shuffled across files. A loader's state stores
# MAGIC its position, and another loader, in any process, continues with the next row.

# COMMAND ----------

from mdstorm.pytorch import BatchedDataLoader


def new_loader():
    reader = make_batch_reader(PARQUET, schema_fields=["id", "price"], num_epochs=1, seed=1)
    return BatchedDataLoader(reader, batch_size=64, shuffling_queue_capacity=500)


with new_loader() as loader:
    batches = iter(loader)
    seen = [next(batches)["id"] for _ in range(5)]
    state = loader.state_dict()
with new_loader() as loader:
    loader.load_state_dict(state)
    seen += [batch["id"] for batch in loader]
ids = np.concatenate(seen)
print(f"stopped and resumed: {len(ids)} rows, {len(np.unique(ids))} of them different")

# COMMAND ----------

import matplotlib.pyplot as plt

plt.figure(figsize=(5, 2.5))
shown = np.arange(0, len(ids), 2)
plt.plot(shown, ids[shown], "s", markersize=1, antialiased=False)
plt.axvline(5 * 64, color="gray", linestyle="--")
plt.title("every second row; stopped and resumed at the line")
plt.xlabel("position in the epoch")
plt.ylabel("id")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Delta
# MAGIC
# MAGIC The table has three versions: the first has orders, the second more orders, and the third no
# MAGIC orders of day 7. The files of older versions are still in the directory; the table's log
# MAGIC records which rows are live.

# COMMAND ----------

from deltalake import DeltaTable, write_deltalake

DELTA = f"{DATA}/delta"
write_deltalake(DELTA, orders(0, 800), mode="overwrite")
first = DeltaTable(DELTA).version()
write_deltalake(DELTA, orders(800, 1000), mode="append")
DeltaTable(DELTA).delete("day = 7")


def ids_of(**version):
    with make_batch_reader(DELTA, num_epochs=1, **version) as reader:
        return sorted(int(number) for rows in reader for number in rows.id)


print(f"the newest version: {len(ids_of())} rows; the first: {len(ids_of(version=first))}")

# COMMAND ----------

# MAGIC %md
# MAGIC Instead of a DataFrame, `make_spark_converter` also takes a path and a version. The
# MAGIC converter's loaders for PyTorch and TensorFlow work as usual, without a copy.

# COMMAND ----------

from mdstorm.spark import make_spark_converter

converter = make_spark_converter(DELTA, version=first)
with converter.make_torch_dataloader(batch_size=256, num_epochs=1) as loader:
    print([len(batch["id"]) for batch in loader])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Or convert once
# MAGIC
# MAGIC MDS is read faster than Parquet. `verify` compares every row with the source. On the command
# MAGIC line, run `mdstorm convert SRC DST` and `mdstorm verify --against SRC DST`.

# COMMAND ----------

import subprocess
import sys


def mdstorm(*arguments):
    command = [sys.executable, "-m", "mdstorm", *arguments]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


mdstorm("convert", DELTA, f"{DATA}/mds")
mdstorm("verify", "--against", DELTA, f"{DATA}/mds")
