# Databricks notebook source
# MAGIC %md
# MAGIC # MDS for users of MosaicML Streaming
# MAGIC
# MAGIC Spark writes text as tokens, a writer writes images, and one dataset mixes several streams.
# MAGIC In code written for MosaicML Streaming, `from streaming import …` becomes
# MAGIC `from mdstorm_backend import …`; existing datasets are read as they are.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch,images]" matplotlib scikit-learn

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import matplotlib, mdstorm, PIL, pyspark, sklearn, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The directory
# MAGIC
# MAGIC Change only this line. The driver and the workers must both reach the directory: on a
# MAGIC cluster, use a volume, `file:///Volumes/<catalog>/<schema>/<volume>/data`, or a bucket,
# MAGIC `s3://<bucket>/data`.

# COMMAND ----------

DATA = "file:///tmp/examples-cache"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Text to tokens, with Spark
# MAGIC
# MAGIC `dataframe_to_mds` writes each partition to its own directory, and one index for all
# MAGIC partitions. The preprocessing function gets rows as a pandas DataFrame, and yields samples.
# MAGIC Compression makes the files smaller, and hashes reveal damaged files.

# COMMAND ----------

import numpy as np
from pyspark.sql import SparkSession

from mdstorm_backend import dataframe_to_mds

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
texts = spark.range(200).selectExpr("id", "concat('the ship ', id, ' comes in late') AS text")


def tokenize(rows, length):
    """Convert each letter to a number; a real program would use a tokenizer."""
    for number, text in zip(rows["id"], rows["text"]):
        tokens = np.zeros(length, np.int64)
        letters = np.frombuffer(text.encode()[:length], np.uint8)
        tokens[: len(letters)] = letters
        yield {"id": int(number), "tokens": tokens}


def write_tokens(frame, name):
    out = f"{DATA}/{name}"
    writing = {
        "out": out,
        "columns": {"id": "int", "tokens": "ndarray:int64:32"},
        "compression": "zstd",
        "hashes": ["sha256"],
        "exist_ok": True,
    }
    dataframe_to_mds(frame, mds_kwargs=writing, udf_iterable=tokenize, udf_kwargs={"length": 32})
    return out


ships = write_tokens(texts.repartition(4, "id"), "ships")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Reading
# MAGIC
# MAGIC A dataset downloads shards from `remote` as it needs them, and keeps them on this machine.
# MAGIC Each epoch has a different order, on which all ranks and workers of a job agree.

# COMMAND ----------

from mdstorm_backend import StreamingDataLoader, StreamingDataset

dataset = StreamingDataset(remote=ships, shuffle=True, batch_size=50, validate_hash="sha256")
loader = StreamingDataLoader(dataset, batch_size=50)
for epoch in range(2):
    rows = [number for batch in loader for number in batch["id"].tolist()]
    print(f"epoch {epoch}: {len(rows)} rows, {len(set(rows))} of them different")
print(f"tokens of a batch: {next(iter(loader))['tokens'].shape}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Resuming where a job stopped

# COMMAND ----------

loader = StreamingDataLoader(
    StreamingDataset(remote=ships, shuffle=True, batch_size=50), batch_size=50
)
batches = iter(loader)
before = [number for _ in range(2) for number in next(batches)["id"].tolist()]
state = loader.state_dict()

resumed = StreamingDataLoader(
    StreamingDataset(remote=ships, shuffle=True, batch_size=50), batch_size=50
)
resumed.load_state_dict(state)
after = [number for batch in resumed for number in batch["id"].tolist()]
print(f"{len(before)} rows, then {len(after)}: {len({*before, *after})} different ones")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Several streams, mixed
# MAGIC
# MAGIC Three in four samples come from one stream, and the rest from the other. Each batch mixes
# MAGIC both.

# COMMAND ----------

from mdstorm_backend import Stream

storms = write_tokens(
    spark.range(1000, 1100).selectExpr("id", "concat('storm ', id) AS text"), "storms"
)
mixed = StreamingDataset(
    streams=[Stream(remote=ships, proportion=0.75), Stream(remote=storms, proportion=0.25)],
    epoch_size=160,
    shuffle=True,
    batch_size=16,
)
numbers = [sample["id"] for sample in mixed]
print(f"{len(numbers)} rows, {sum(number >= 1000 for number in numbers)} of them about storms")

# COMMAND ----------

import matplotlib.pyplot as plt

batches = (np.array(numbers) >= 1000).reshape(10, 16)
plt.figure(figsize=(5, 3))
plt.pcolormesh(batches, cmap="Blues", edgecolors="white", vmin=-0.3)
plt.title("rows about storms are dark")
plt.xlabel("row of a batch")
plt.ylabel("batch")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Images
# MAGIC
# MAGIC A writer stores each image as a file, here PNG. Samples contain Pillow images, and a
# MAGIC loader's `batch_map` or `collate_fn` turns them into tensors.

# COMMAND ----------

from PIL import Image
from sklearn.datasets import load_digits

from mdstorm_backend import MDSWriter

digits = load_digits()
with MDSWriter(
    out=f"{DATA}/digits", columns={"image": "png", "label": "int"}, exist_ok=True
) as writer:
    for pixels, label in zip(digits.images[:100], digits.target):
        image = Image.fromarray((pixels * 15).astype(np.uint8))
        writer.write({"image": image, "label": int(label)})

# COMMAND ----------

import torch


def to_tensors(samples):
    images = [np.asarray(sample["image"], np.float32) / 255 for sample in samples]
    return torch.tensor(np.stack(images)), torch.tensor([sample["label"] for sample in samples])


dataset = StreamingDataset(remote=f"{DATA}/digits", shuffle=True, batch_size=20)
images, labels = next(iter(StreamingDataLoader(dataset, batch_size=20, collate_fn=to_tensors)))
print(f"images {tuple(images.shape)}, labels {tuple(labels.shape)}")

_, axes = plt.subplots(1, 12, figsize=(8, 1))
for axis, image, label in zip(axes, images, labels):
    axis.imshow(image, cmap="gray_r")
    axis.set_title(int(label))
    axis.axis("off")
plt.show()
