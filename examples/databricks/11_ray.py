# Databricks notebook source
# MAGIC %md
# MAGIC # Ray Train
# MAGIC
# MAGIC Ray's workers read the rows that Spark prepared. The converter is sent to them as a small
# MAGIC pickle, and with `cur_shard="auto"` each worker finds its share of the rows.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]" "ray[train]" matplotlib

# COMMAND ----------

import os
import tempfile

# If a library is missing, run the cell above and restart Python.
import matplotlib, mdstorm, pyspark, ray.train, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cache directory
# MAGIC
# MAGIC Change only this line. The driver and the workers must both reach the directory: on a
# MAGIC cluster, use a volume, `file:///Volumes/<catalog>/<schema>/<volume>/cache`.

# COMMAND ----------

CACHE = "file:///tmp/examples-cache"

# COMMAND ----------

from pyspark.sql import SparkSession

from mdstorm.spark import make_spark_converter

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
df = spark.range(1000).selectExpr("id", "float(id / 1000) AS x", "float(3 * id / 1000) AS y")
converter = make_spark_converter(df.repartition(4), parent_cache_dir_url=CACHE)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What each worker reads
# MAGIC
# MAGIC With two workers, each row goes to one of them, and each worker shuffles its share.

# COMMAND ----------

import matplotlib.pyplot as plt
import numpy as np

plt.figure(figsize=(5, 2.5))
for rank in range(2):
    loader = converter.make_torch_dataloader(
        batch_size=50,
        num_epochs=1,
        cur_shard=rank,
        shard_count=2,
        shuffling_queue_capacity=1000,
        seed=1,
    )
    ids = np.concatenate([batch["id"] for batch in loader])
    plt.plot(ids[::5], "o", markersize=3, antialiased=False)
plt.title("every fifth row; a colour for each worker")
plt.xticks([])
plt.xlabel("order in which they come")
plt.ylabel("id")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## The training function
# MAGIC
# MAGIC `prepare_data_loader` fetches one batch ahead. The state in the checkpoint is from the
# MAGIC original loader, which accounts for that batch.

# COMMAND ----------


def train(settings):
    import json

    import ray.train.torch
    import torch

    converter = settings["converter"]
    loader = converter.make_torch_dataloader(
        batch_size=50, num_epochs=1, cur_shard="auto", shuffling_queue_capacity=1000, seed=1
    )
    batches = ray.train.torch.prepare_data_loader(loader)
    torch.manual_seed(1)
    model = ray.train.torch.prepare_model(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    rows = 0
    for _ in range(settings["epochs"]):
        for batch in batches:
            loss = torch.nn.functional.mse_loss(model(batch["x"][:, None])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += len(batch["id"])
    total = torch.tensor(rows)
    torch.distributed.all_reduce(total)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "loader.json"), "w") as file:
            json.dump(loader.state_dict(), file)
        checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"rows": int(total), "loss": loss.item()}, checkpoint=checkpoint)


# COMMAND ----------

# MAGIC %md
# MAGIC ## Two workers
# MAGIC
# MAGIC Without `num_cpus`, Ray uses all CPUs of the machine or the cluster. Checkpoints are written
# MAGIC to `storage_path`; on a cluster, set it to a volume.

# COMMAND ----------

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

ray.init(num_cpus=4, include_dashboard=False)
trainer = TorchTrainer(
    train,
    train_loop_config={"converter": converter, "epochs": 3},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=tempfile.mkdtemp()),
)
result = trainer.fit()
print(f"{result.metrics['rows']} rows in three epochs over both workers")
print(f"loss {result.metrics['loss']:.2f}")
print("the checkpoint holds:", os.listdir(result.checkpoint.path))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up

# COMMAND ----------

ray.shutdown()
converter.delete()
