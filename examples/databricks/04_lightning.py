# Databricks notebook source
# MAGIC %md
# MAGIC # Lightning: one process, several, and resuming from a checkpoint
# MAGIC
# MAGIC A data module takes converters. Each process reads its share; each row is read
# MAGIC once per epoch. A run that stopped in the middle of an epoch resumes with the next row.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]" lightning matplotlib scikit-learn

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import lightning, matplotlib, mdstorm, pyspark, sklearn, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cache directory
# MAGIC
# MAGIC Change only this line. The driver and the workers must both reach the directory: on a
# MAGIC cluster, use a volume, `file:///Volumes/<catalog>/<schema>/<volume>/cache`.

# COMMAND ----------

CACHE = "file:///tmp/examples-cache"

# COMMAND ----------

# MAGIC %md
# MAGIC ## The rows
# MAGIC
# MAGIC The table has 1,797 images of 8 by 8 pixels, each stored as an array of numbers. A tenth of
# MAGIC the images are held out.

# COMMAND ----------

from pyspark.sql import SparkSession
from sklearn.datasets import load_digits

from mdstorm.spark import make_spark_converter

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
digits = load_digits()
rows = [
    (number, (pixels / 16).tolist(), int(label))
    for number, (pixels, label) in enumerate(zip(digits.data, digits.target))
]
df = spark.createDataFrame(rows, "number LONG, pixels ARRAY<FLOAT>, label LONG")
df = df.repartition(4, "number")

train_rows = make_spark_converter(df.where("number % 10 > 0"), parent_cache_dir_url=CACHE)
held_out = make_spark_converter(df.where("number % 10 = 0"), parent_cache_dir_url=CACHE)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The model, and the data module
# MAGIC
# MAGIC Batches are dicts of tensors, one per column.

# COMMAND ----------

import lightning
import torch
from torch import nn

from mdstorm.lightning import StreamingDataModule


class DigitModel(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.rows = 0  # number of rows that this process has trained on
        self.losses = []

    def training_step(self, batch, batch_idx):
        self.rows += len(batch["label"])
        loss = nn.functional.cross_entropy(self.layers(batch["pixels"]), batch["label"])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, batch_idx):
        right = self.layers(batch["pixels"]).argmax(1) == batch["label"]
        self.log("accuracy", right.float().mean(), batch_size=len(right), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.005)


def new_data():
    return StreamingDataModule(
        train=train_rows, val=held_out, batch_size=64, evaluation={"batch_size": 180}, seed=1
    )


QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
QUIET |= {"num_sanity_val_steps": 0}

# COMMAND ----------

# MAGIC %md
# MAGIC ## One process, stopped in its second epoch and resumed

# COMMAND ----------

import os
import tempfile

from lightning.pytorch.callbacks import ModelCheckpoint

folder = tempfile.mkdtemp()
lightning.seed_everything(1, verbose=False)
save = ModelCheckpoint(folder, "stopped", every_n_train_steps=40)  # an epoch has 26 steps
model = DigitModel()
trainer = lightning.Trainer(max_steps=40, accelerator="cpu", callbacks=[save], **QUIET)
trainer.fit(model, datamodule=new_data())
print(
    f"stopped after {model.rows} rows, {model.rows - len(train_rows)} of them in the second epoch"
)

resumed = DigitModel()
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", enable_checkpointing=False, **QUIET)
trainer.fit(resumed, datamodule=new_data(), ckpt_path=os.path.join(folder, "stopped.ckpt"))
print(f"went on with {resumed.rows} rows: each row came twice in all")
assert model.rows + resumed.rows == 2 * len(train_rows)
print(f"accuracy {float(trainer.callback_metrics['accuracy']):.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC The resumed run continues with the weights of the first one and with the next row, and the
# MAGIC loss continues to fall.

# COMMAND ----------

import matplotlib.pyplot as plt

steps = len(model.losses)
plt.figure(figsize=(5, 2.5))
plt.plot(range(steps), model.losses, label="the run that was stopped")
plt.plot(range(steps, steps + len(resumed.losses)), resumed.losses, label="the run that resumed")
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Two processes
# MAGIC
# MAGIC `TorchDistributor` starts the processes, here on this machine; with `local_mode=False` they
# MAGIC are Spark tasks on the workers of the cluster. The code is the same as for one process.

# COMMAND ----------

from pyspark.ml.torch.distributor import TorchDistributor


def train_distributed(epochs):
    import torch.distributed as dist

    model = DigitModel()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        enable_checkpointing=False,
        **QUIET,
    )
    trainer.fit(model, datamodule=new_data())
    rows = [0, 0]
    dist.all_gather_object(rows, model.rows)
    return rows, float(trainer.callback_metrics["accuracy"])


distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
rows, accuracy = distributor.run(train_distributed, 3)
print(f"rows of each process in three epochs: {rows}")
print(f"accuracy {accuracy:.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up

# COMMAND ----------

train_rows.delete()
held_out.delete()
