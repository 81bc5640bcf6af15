# Databricks notebook source
# MAGIC %md
# MAGIC # Hugging Face: the Trainer and Accelerate
# MAGIC
# MAGIC Both train on whole batches of the rows that Spark prepared, instead of collating samples.
# MAGIC Each process reads its share, evaluation counts every row once, and training resumes where a
# MAGIC checkpoint was taken.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]" transformers accelerate matplotlib scikit-learn

# COMMAND ----------

import os
import tempfile

# If a library is missing, run the cell above and restart Python.
import accelerate, matplotlib, mdstorm, pyspark, sklearn, torch, transformers

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
# MAGIC ## The Trainer
# MAGIC
# MAGIC With `StreamingTrainerMixin`, the Trainer takes converters. The model gets columns by name:
# MAGIC `label` becomes `labels`, and columns that the model does not take are left out.

# COMMAND ----------

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from mdstorm.transformers import StreamingTrainerMixin


class DigitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, pixels, labels):
        logits = self.layers(pixels)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class DigitTrainer(StreamingTrainerMixin, Trainer):
    pass


def accuracy(found):
    right = found.predictions.argmax(1) == found.label_ids
    return {"rows": len(right), "accuracy": right.mean()}


folder = tempfile.mkdtemp()
arguments = TrainingArguments(
    folder,
    num_train_epochs=3,
    per_device_train_batch_size=64,
    per_device_eval_batch_size=64,
    learning_rate=0.005,
    save_steps=40,  # an epoch has 26 steps
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
    seed=1,
)


def new_trainer():
    torch.manual_seed(1)
    return DigitTrainer(
        DigitModel(),
        arguments,
        train_dataset=train_rows,
        eval_dataset=held_out,
        compute_metrics=accuracy,
    )


trainer = new_trainer()
trainer.train()
metrics = trainer.evaluate()
print(f"evaluated on {metrics['eval_rows']} rows")
print(f"accuracy {metrics['eval_accuracy']:.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC `predict` also takes a converter. Each held-out digit is counted in one cell: the row is the
# MAGIC true digit, and the column is the digit that the model predicts.

# COMMAND ----------

import matplotlib.pyplot as plt
from sklearn.metrics import ConfusionMatrixDisplay

found = trainer.predict(held_out)
said = found.predictions.argmax(1)
_, axis = plt.subplots(figsize=(4, 4), dpi=72)
ConfusionMatrixDisplay.from_predictions(
    found.label_ids, said, ax=axis, cmap="Blues", colorbar=False
)
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC Training resumes from a checkpoint in the middle of the second epoch, with the remaining
# MAGIC rows. The final weights equal those of the uninterrupted run.

# COMMAND ----------

resumed = new_trainer()
resumed.train(resume_from_checkpoint=os.path.join(folder, "checkpoint-40"))
pairs = zip(trainer.model.parameters(), resumed.model.parameters())
difference = max(float((one - other).abs().max()) for one, other in pairs)
print(f"largest difference between the weights: {difference:.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Accelerate
# MAGIC
# MAGIC `prepare` takes a converter's loader, and each process reads its share of the rows. At the
# MAGIC end of an epoch, the last batches are padded to the same size, and `gather_for_metrics`
# MAGIC leaves the padding out. `TorchDistributor` starts two processes here, as `accelerate launch`
# MAGIC does elsewhere.

# COMMAND ----------

from pyspark.ml.torch.distributor import TorchDistributor


def train_distributed(epochs):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    model = DigitModel()
    model, optimizer, loader, test_loader = accelerator.prepare(
        model,
        torch.optim.Adam(model.parameters(), lr=0.005),
        train_rows.make_torch_dataloader(batch_size=64, num_epochs=1, seed=1),
        held_out.make_torch_dataloader(batch_size=64, num_epochs=1),
    )
    for _ in range(epochs):
        for batch in loader:
            accelerator.backward(model(batch["pixels"], batch["label"])["loss"])
            optimizer.step()
            optimizer.zero_grad()

    numbers, right = [], 0
    with torch.no_grad():
        for batch in test_loader:
            guess = model(batch["pixels"], batch["label"])["logits"].argmax(1)
            number, hit = accelerator.gather_for_metrics((batch["number"], guess == batch["label"]))
            numbers += number.tolist()
            right += int(hit.sum())
    accelerator.end_training()
    return sorted(numbers), right / len(numbers)


distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
numbers, share = distributor.run(train_distributed, 3)
print(f"evaluated on {len(numbers)} rows, {len(set(numbers))} of them different")
print(f"accuracy {share:.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up

# COMMAND ----------

train_rows.delete()
held_out.delete()
