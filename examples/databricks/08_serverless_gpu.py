# Databricks notebook source
# MAGIC %md
# MAGIC # Serverless GPU: loaders made inside the distributed function
# MAGIC
# MAGIC On serverless GPU compute (AI Runtime), a function is pickled and runs in one process per
# MAGIC GPU, without a Spark session. So the function takes small arguments and makes its own
# MAGIC loader, and every process reads its share of the rows.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch,databricks,delta,s3]" matplotlib

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import databricks.sdk, deltalake, matplotlib, mdstorm, pyspark, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The directory and the table
# MAGIC
# MAGIC Change only these lines. `CACHE` is a volume,
# MAGIC `file:///Volumes/<catalog>/<schema>/<volume>/cache`, which the notebook and the processes
# MAGIC reach under the same path. `TABLE` is a table of Unity Catalog, which the last section
# MAGIC reads.

# COMMAND ----------

CACHE = "file:///tmp/examples-cache"
TABLE = "main.default.points"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Processes
# MAGIC
# MAGIC The launcher starts one process for each GPU of this machine:
# MAGIC
# MAGIC | compute | launcher |
# MAGIC |---|---|
# MAGIC | serverless GPUs, environment version 6 and newer | `databricks.air` |
# MAGIC | serverless GPUs, up to environment version 5 | `serverless_gpu`, its predecessor |
# MAGIC | a cluster with GPUs | Spark's `TorchDistributor` |
# MAGIC | no GPU | `TorchDistributor`, with two processes on the CPU |
# MAGIC
# MAGIC Without a GPU, you can try the notebook before you pay for one.
# MAGIC On serverless compute, `DATABRICKS_RUNTIME_VERSION` begins with `client.`, as in `client.6`.
# MAGIC [MLflow](https://github.com/mlflow/mlflow/blob/master/mlflow/utils/databricks_utils.py)
# MAGIC recognises it in the same way. This notebook ran with imitations of both serverless
# MAGIC launchers, and not on Databricks.

# COMMAND ----------

import importlib
import os
from contextlib import suppress

from pyspark.ml.torch.distributor import TorchDistributor

IS_SERVERLESS = os.environ.get("DATABRICKS_RUNTIME_VERSION", "").startswith("client.")


def find_launcher():
    """Return the decorator with which serverless GPU compute starts processes."""
    for package in ("databricks.air", "serverless_gpu"):
        with suppress(ModuleNotFoundError):
            return importlib.import_module(package).distributed
    raise ImportError(
        "neither databricks.air (GPU environment version 6 and newer) nor serverless_gpu (up to "
        "version 5) can be imported here, so the GPUs cannot be used: choose a GPU environment in "
        "the panel Environment"
    )


def run_distributed(function, *arguments):
    """Run a function in one process for each GPU, and return what the first one returns."""
    num_gpus = torch.cuda.device_count()
    if num_gpus and IS_SERVERLESS:
        return find_launcher()()(function).distributed(*arguments)[0]
    if not num_gpus:
        print("There is no GPU here: two processes run on the CPU.")
    launcher = TorchDistributor(num_gpus or 2, local_mode=True, use_gpu=num_gpus > 0)
    return launcher.run(function, *arguments)


# COMMAND ----------

# MAGIC %md
# MAGIC ## The rows
# MAGIC
# MAGIC Serverless sessions refuse `spark.conf.set` for keys that they do not know, so the cache
# MAGIC directory is passed as an argument. If Python on the executors is not allowed to write to
# MAGIC the volume, Spark writes Parquet there and the notebook converts the files to shards. The
# MAGIC log mentions this.

# COMMAND ----------

from pyspark.sql import SparkSession

from mdstorm.spark import make_spark_converter

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
df = spark.range(4000).selectExpr("id", "float(id / 4000) AS x", "float(3 * id / 4000) AS y")
converter = make_spark_converter(df.repartition(8), parent_cache_dir_url=CACHE)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is sent to the processes
# MAGIC
# MAGIC Everything that a function uses is pickled with the function, so a table would be sent to
# MAGIC every process. A converter stores only where the rows are and how many there are.

# COMMAND ----------

import pickle

print(f"{len(converter)} rows, and a pickle of {len(pickle.dumps(converter)) / 1000:.0f} kB")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The function
# MAGIC
# MAGIC The loader, the model and the process group are created inside the function.
# MAGIC `cur_shard="auto"` finds the rank and the number of processes, from the process group or
# MAGIC from the launcher's variables.
# MAGIC
# MAGIC - **Copies across epochs.** The process that first needs a shard copies it from the volume
# MAGIC   to the machine's own disk, and all epochs read the copy. Set `MDSTORM_CACHE_DIR` to a
# MAGIC   directory on the fastest disk.
# MAGIC - **Threads and prefetch.** `workers_count` threads read and decode ahead of the training
# MAGIC   loop, and `shuffling_queue_capacity` sets the number of rows that are shuffled together.
# MAGIC   The training loop copies each batch to the GPU.
# MAGIC - **Statistics.** After a pass, `loader.statistics()` shows how long a GPU waited for data,
# MAGIC   and why.

# COMMAND ----------

import tempfile


def train(converter, epochs):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    fast_disk = "/local_disk0" if os.path.isdir("/local_disk0") else tempfile.gettempdir()
    os.environ.setdefault("MDSTORM_CACHE_DIR", os.path.join(fast_disk, "mdstorm-cache"))

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    read = torch.zeros(epochs, dist.get_world_size(), len(converter), device=device)
    with converter.make_torch_dataloader(
        batch_size=100,
        num_epochs=1,
        cur_shard="auto",
        workers_count=4,
        shuffling_queue_capacity=2000,
        seed=1,
    ) as loader:
        for epoch in range(epochs):
            for batch in loader:
                x, y = batch["x"].to(device), batch["y"].to(device)
                loss = torch.nn.functional.mse_loss(model(x[:, None])[:, 0], y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                read[epoch, dist.get_rank(), batch["id"].to(device)] += 1
    dist.all_reduce(read)
    del model  # free it before its process group is destroyed
    dist.destroy_process_group()
    return read.cpu().numpy(), loss.item()


read, loss = run_distributed(train, converter, 5)
print(f"{int(read.sum())} rows in five epochs over all processes")
print(f"loss {loss:.4f}")

# COMMAND ----------

# MAGIC %md
# MAGIC Each square is a row, coloured by the process that read it. A process reads the same share
# MAGIC in every epoch, so it copies only the shards of that share.

# COMMAND ----------

import matplotlib.pyplot as plt

_, axes = plt.subplots(1, 2, figsize=(8, 2.5))
for epoch, axis in enumerate(axes):
    axis.imshow(read[epoch, -1].reshape(40, 100), cmap="Blues", vmin=-0.3, interpolation="nearest")
    axis.set(title=f"epoch {epoch}: rows of the last process are dark", xticks=[], yticks=[])
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Resume
# MAGIC
# MAGIC `state_dict()` is the position of all processes together. Save it with the model, in a
# MAGIC volume: any process can load it, also if there are more or fewer GPUs than before.

# COMMAND ----------


def read_rows(converter, state, num_batches):
    from itertools import islice

    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    read = torch.zeros(len(converter), dtype=torch.int64)
    with converter.make_torch_dataloader(
        batch_size=100, num_epochs=1, cur_shard="auto", seed=1
    ) as loader:
        if state is not None:
            loader.load_state_dict(state)
        for batch in islice(loader, num_batches):
            read[batch["id"]] += 1
        state = loader.state_dict()
    dist.all_reduce(read)
    dist.destroy_process_group()
    return read.numpy(), state


before, state = run_distributed(read_rows, converter, None, 2)
after, _ = run_distributed(read_rows, converter, state, None)
print(f"every row once: {bool((before + after == 1).all())}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up

# COMMAND ----------

converter.delete()

# COMMAND ----------

# MAGIC %md
# MAGIC ## A table by its name
# MAGIC
# MAGIC A table of Unity Catalog needs no converter in the notebook: the table's name is passed to
# MAGIC the function, and each process opens the table and reads its share. Each process logs in to
# MAGIC the workspace, and gets its own credentials for the files, which are renewed before they
# MAGIC expire. Outside of Databricks, set `DATABRICKS_HOST` and `DATABRICKS_TOKEN` where this
# MAGIC notebook is started. If a process cannot log in, the error names the variables to set inside
# MAGIC the function.

# COMMAND ----------


def count_rows(name):
    import torch
    import torch.distributed as dist

    from mdstorm.spark import make_spark_converter

    dist.init_process_group("gloo")
    rows = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    with make_spark_converter(name).make_torch_dataloader(
        batch_size=100, num_epochs=1, cur_shard="auto", seed=1
    ) as loader:
        for batch in loader:
            rows[dist.get_rank()] += len(next(iter(batch.values())))
    dist.all_reduce(rows)
    dist.destroy_process_group()
    return rows.tolist()


print(f"rows of {TABLE} by process: {run_distributed(count_rows, TABLE)}")
