# Databricks notebook source
# MAGIC %md
# MAGIC # Composer: from a converter, and from MosaicML's own dataset
# MAGIC
# MAGIC Composer's Trainer takes the loader of a converter or a `StreamingDataLoader`, and its
# MAGIC checkpoints store the position in the data. At the end, plain PyTorch reads the same shards
# MAGIC in two processes, which TorchDistributor starts.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]" mosaicml matplotlib scikit-learn

# COMMAND ----------

import tempfile

# If a library is missing, run the cell above and restart Python.
import composer, matplotlib, mdstorm, pyspark, sklearn, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cache directory
# MAGIC
# MAGIC Change only this line. The driver and the workers must both reach the directory: on a
# MAGIC cluster, use a volume, `file:///Volumes/<catalog>/<schema>/<volume>/cache`.

# COMMAND ----------

CACHE = "file:///tmp/examples-cache"

# COMMAND ----------

import numpy as np
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits

from mdstorm.spark import make_spark_converter

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
digits = load_digits()
rows = [
    (number, (image.reshape(-1) / 16).tolist(), int(label))
    for number, (image, label) in enumerate(zip(digits.images, digits.target))
]
df = spark.createDataFrame(rows, "number LONG, pixels ARRAY<FLOAT>, label LONG")
df = df.repartitionByRange(4, "number")

train_rows = make_spark_converter(df.where("number % 10 > 0"), parent_cache_dir_url=CACHE)
held_out = make_spark_converter(df.where("number % 10 = 0"), parent_cache_dir_url=CACHE)
print(f"{len(train_rows)} rows to train on, {len(held_out)} held out")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Train from the converter, and stop in the second epoch

# COMMAND ----------

from composer import ComposerModel, Trainer
from torch import nn


class DigitModel(ComposerModel):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.rows = 0  # number of rows that the model was trained on

    def forward(self, batch):
        self.rows += len(batch["label"])
        return self.layers(batch["pixels"])

    def loss(self, outputs, batch):
        return nn.functional.cross_entropy(outputs, batch["label"])


def train(loader, duration, **options):
    torch.manual_seed(1)
    model = DigitModel()
    trainer = Trainer(
        model=model,
        train_dataloader=loader,
        optimizers=torch.optim.Adam(model.parameters(), lr=0.005),
        max_duration=duration,
        device="cpu",
        progress_bar=False,
        **options,
    )
    trainer.fit()
    return model


def accuracy_of(model):
    (batch,) = held_out.make_torch_dataloader(batch_size=len(held_out), num_epochs=1)
    with torch.no_grad():
        return float((model.layers(batch["pixels"]).argmax(1) == batch["label"]).float().mean())


def new_loader(seed=1, **options):
    return train_rows.make_torch_dataloader(batch_size=64, num_epochs=1, seed=seed, **options)


folder = tempfile.mkdtemp()
stopped = train(
    new_loader(), "40ba", save_folder=folder, save_filename="stopped.pt", save_interval="40ba"
)
print(f"stopped after {stopped.rows} rows")

# COMMAND ----------

# MAGIC %md
# MAGIC A run that resumes from the checkpoint continues with the remaining rows of the second
# MAGIC epoch.

# COMMAND ----------

resumed = train(new_loader(), "2ep", load_path=f"{folder}/stopped.pt")
print(f"went on with {resumed.rows} rows, {stopped.rows + resumed.rows} in both runs")
print(f"accuracy {accuracy_of(resumed):.2f} on digits that it has not seen")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Train from MosaicML's dataset
# MAGIC
# MAGIC A converter writes MDS, so `StreamingDataset` reads the same directory, in MosaicML's order.

# COMMAND ----------

from mdstorm_backend import StreamingDataLoader, StreamingDataset

dataset = StreamingDataset(remote=train_rows.cache_dir_url, shuffle=True, batch_size=64)
model = train(StreamingDataLoader(dataset, batch_size=64), "2ep")
print(f"{model.rows} rows, accuracy {accuracy_of(model):.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC By default, a converter's loader shuffles shards. With a queue of 1,000 rows, it also
# MAGIC shuffles rows within windows of whole shards, which mix them as much as Petastorm's queue.
# MAGIC `StreamingDataset` shuffles rows within its own blocks.

# COMMAND ----------

import matplotlib.pyplot as plt

loaders = {
    "converter": new_loader(seed=2),
    "a queue of 1,000": new_loader(seed=2, shuffling_queue_capacity=1000),
    "StreamingDataset": StreamingDataLoader(dataset, batch_size=64),
}
_, axes = plt.subplots(1, 3, figsize=(7, 2), sharey=True)
for axis, (name, loader) in zip(axes, loaders.items()):
    numbers = np.concatenate([batch["number"] for batch in loader])
    axis.plot(numbers[::6], "s", markersize=1, antialiased=False)
    axis.set(title=name, xlabel="rows of an epoch", xticks=[])
axes[0].set_ylabel("number")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Two processes
# MAGIC
# MAGIC `StreamingDataset` takes its share from the launcher, here TorchDistributor. With
# MAGIC `local_mode=False` the processes are Spark tasks on the workers of the cluster.

# COMMAND ----------

from pyspark.ml.torch.distributor import TorchDistributor


def train_distributed(url, epochs):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")  # "nccl" on GPUs
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    dataset = StreamingDataset(remote=url, shuffle=True, batch_size=32)
    rows = 0
    for _ in range(epochs):
        for batch in StreamingDataLoader(dataset, batch_size=32):
            loss = nn.functional.cross_entropy(model(batch["pixels"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += len(batch["label"])
    weights = model.module.state_dict()
    del model  # free it before its process group is destroyed
    dist.destroy_process_group()
    return rows, weights


distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
rows, weights = distributor.run(train_distributed, train_rows.cache_dir_url, 2)
model = DigitModel()
model.layers.load_state_dict(weights)
print(f"{rows} rows in each process in two epochs, accuracy {accuracy_of(model):.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up

# COMMAND ----------

train_rows.delete()
held_out.delete()
