# Databricks notebook source
# MAGIC %md
# MAGIC # Find mislabelled images
# MAGIC
# MAGIC A Delta table has the paths and labels of images, and some labels are wrong. `files=` reads
# MAGIC the images in place. After training, the rows with the largest loss show the wrong labels,
# MAGIC and MLflow knows in which steps each of them was read. Nothing here needs Spark.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch,delta,images,mlflow]" alembic sqlalchemy matplotlib scikit-learn

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import deltalake, matplotlib, mdstorm, mlflow, PIL, sklearn, torch

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
# MAGIC ## A table of paths and labels
# MAGIC
# MAGIC The images are small files of handwritten digits. Twenty of the 1,797 labels are wrong.

# COMMAND ----------

from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from PIL import Image
from sklearn.datasets import load_digits

IMAGES, LABELS = f"{DATA}/images", f"{DATA}/labels"
digits = load_digits()
folder = Path(IMAGES.removeprefix("file://"))
folder.mkdir(parents=True, exist_ok=True)
for number, pixels in enumerate(digits.images):
    Image.fromarray((pixels * 15).astype("uint8")).convert("RGB").save(folder / f"{number}.png")

labels = digits.target.copy()
wrong = np.random.default_rng(1).choice(len(labels), 20, replace=False)
labels[wrong] = (labels[wrong] + 5) % 10
paths = [f"{IMAGES}/{number}.png" for number in range(len(labels))]
write_deltalake(LABELS, pa.table({"path": paths, "label": labels}), mode="overwrite")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Training
# MAGIC
# MAGIC The loader reads the table in place, and for each row the file that its `path` names.
# MAGIC `log_input` and `log_state` log which data the run reads, and where the loader begins. On
# MAGIC Databricks, leave out the line that sets the tracking URI.

# COMMAND ----------

import mdstorm.mlflow
from mdstorm.spark import make_spark_converter

mlflow.set_tracking_uri(f"sqlite:///{DATA.removeprefix('file://')}/mlflow.db")

converter = make_spark_converter(LABELS)
reading = {"files": {"image": "path"}, "files_below": [IMAGES], "decode": "image"}
loader = converter.make_torch_dataloader(
    batch_size=64, num_epochs=5, shuffling_queue_capacity=2000, seed=1, **reading
)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)


def losses_of(batch):
    """Return the loss of each row; one colour is enough for grey images."""
    pixels = batch["image"][..., 0].flatten(1) / 255
    return torch.nn.functional.cross_entropy(model(pixels), batch["label"], reduction="none")


with mlflow.start_run() as run:
    mdstorm.mlflow.log_input(loader)
    mdstorm.mlflow.log_state(loader)
    for step, batch in enumerate(loader):
        loss = losses_of(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            mlflow.log_metric("loss", loss.item(), step=step)
print(f"{step + 1} steps")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The rows with the largest loss
# MAGIC
# MAGIC `row_numbers=` adds the number of each row to the batches, so that a loss has its row.

# COMMAND ----------

losses = np.zeros(len(converter))
for batch in converter.make_torch_dataloader(
    batch_size=256, num_epochs=1, row_numbers="row", **reading
):
    with torch.no_grad():
        losses[batch["row"].numpy()] = losses_of(batch).numpy()
suspects = np.argsort(losses)[-20:]
share = np.isin(suspects, wrong).mean()
print(f"a share of {share:.2f} of the rows with the largest loss have a wrong label")

# COMMAND ----------

# MAGIC %md
# MAGIC ## See them
# MAGIC
# MAGIC From the run's id, `load_trace` finds the data and the rows of each step. Its dataset reads
# MAGIC single rows, with the content of their files: those below the directories that you allow
# MAGIC here, because a run may have been logged by anyone.

# COMMAND ----------

import matplotlib.pyplot as plt

trace = mdstorm.mlflow.load_trace(run.info.run_id, files_below=[IMAGES])
shown = np.sort(suspects[-8:])
figure, axes = plt.subplots(2, 4, figsize=(5, 3))
for axis, row in zip(axes.flat, trace.dataset[shown]):
    axis.imshow(Image.open(BytesIO(row["image"])))
    axis.set_title(f"label {row['label']}")
    axis.axis("off")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## When the model saw them
# MAGIC
# MAGIC The trace lists the steps in which these rows were read: what to look at in the loss curve,
# MAGIC or to undo. `skip_batches=` and `rows=` leave them out of the next run.

# COMMAND ----------

found = trace.find(shown[:1])
print(f"{trace.dataset[int(shown[0])]['path'].rpartition('/')[2]} was read in the steps")
print(found.column("batch").to_pylist())
good = converter.make_torch_dataloader(
    batch_size=64, num_epochs=1, rows=~np.isin(np.arange(len(converter)), suspects), **reading
)
print(f"{sum(len(batch['label']) for batch in good)} rows without the suspects")
