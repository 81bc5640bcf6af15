# Databricks notebook source
# MAGIC %md
# MAGIC # Preprocess in Spark, save Parquet to DBFS, train from it (for Petastorm)
# MAGIC
# MAGIC Spark cleans a table and writes it as Parquet to `dbfs:/ml`. Training reads the same files
# MAGIC through `/dbfs/ml`, where every machine of a cluster sees them. Training does not need
# MAGIC Spark, so it can run as a separate job.

# COMMAND ----------

# MAGIC %pip install "petastorm[torch]==0.13.1" matplotlib

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import matplotlib, pyspark, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The directory
# MAGIC
# MAGIC Change only this line. On Databricks, use `dbfs:/ml/<you>`.

# COMMAND ----------

DATA = "file:///tmp/examples-cache"

# COMMAND ----------

FLIGHTS = f"{DATA}/flights"  # for Spark
FLIGHTS_HERE = FLIGHTS.replace("dbfs:/", "file:///dbfs/")  # for everything else

# COMMAND ----------

# MAGIC %md
# MAGIC ## Preprocess
# MAGIC
# MAGIC The table has 20,000 invented flights. Cancelled flights are dropped, and the hour and the
# MAGIC distance are scaled. A hash of the id decides which rows are left out of training, so that
# MAGIC the same rows are left out whenever the job runs.

# COMMAND ----------

from pyspark.sql import SparkSession

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
raw = spark.range(20_000).selectExpr(
    "id",
    "5 + pmod(hash(id, 1), 19) AS hour",
    "100 + pmod(hash(id, 2), 2400) AS miles",
    "pmod(hash(id, 3), 50) = 0 AS cancelled",
    "pmod(hash(id, 4), 41) - 20 AS luck",
)
flights = raw.where("NOT cancelled").selectExpr(
    "id",
    "CAST((hour - 14) / 6 AS FLOAT) AS hour",
    "CAST((miles - 1300) / 700 AS FLOAT) AS miles",
    "CAST((hour - 8) * (hour - 8) / 6 - miles / 200 + luck AS FLOAT) AS delay",
    "IF(pmod(hash(id, 5), 10) = 0, 'test', 'train') AS part",
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Save
# MAGIC
# MAGIC Each part gets a directory with eight files, which several processes can share.

# COMMAND ----------

flights.repartition(8, "id").write.mode("overwrite").partitionBy("part").parquet(FLIGHTS)
print(f"{spark.read.parquet(FLIGHTS).count()} of {raw.count()} flights are left")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Train
# MAGIC
# MAGIC `make_batch_reader` reads the files of a directory in place. The loader shuffles their rows
# MAGIC and cuts them into batches.

# COMMAND ----------

import torch
from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader


def batches(part, num_epochs):
    reader = make_batch_reader(
        f"{FLIGHTS_HERE}/part={part}",
        schema_fields=["hour", "miles", "delay"],
        num_epochs=num_epochs,
        seed=1,
    )
    with BatchedDataLoader(reader, batch_size=200, shuffling_queue_capacity=5000) as loader:
        for batch in loader:
            yield torch.stack([batch["hour"], batch["miles"]], dim=1), batch["delay"]


torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for features, delay in batches("train", num_epochs=5):
    loss = torch.nn.functional.mse_loss(model(features)[:, 0], delay)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Check
# MAGIC
# MAGIC The plot shows, for each hour, the mean delay of the flights that were left out of training,
# MAGIC and the delay that the model expects.

# COMMAND ----------

import matplotlib.pyplot as plt

features, delay = map(torch.cat, zip(*batches("test", num_epochs=1)))
expected = model(features).detach()[:, 0]
error = (expected - delay).abs().mean()
print(f"{len(delay)} flights left out; the mean error is {error:.1f} minutes")

hours = features[:, 0].unique()
means = [
    [minutes[features[:, 0] == hour].mean() for hour in hours] for minutes in (delay, expected)
]
plt.figure(figsize=(5, 2.5))
plt.plot(hours * 6 + 14, means[0], "o", label="delays")
plt.plot(hours * 6 + 14, means[1], label="expected by the model")
plt.xticks(range(6, 24, 3))
plt.xlabel("hour of the day")
plt.ylabel("minutes")
plt.legend()
plt.show()
