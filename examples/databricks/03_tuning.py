# Databricks notebook source
# MAGIC %md
# MAGIC # Tuning hyperparameters with Optuna, Hyperopt and joblib
# MAGIC
# MAGIC The rows are converted once, before the search, and every trial reads them. Optuna's trials
# MAGIC run on the driver, those of Hyperopt and joblib as Spark tasks.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]" optuna hyperopt joblibspark matplotlib

# COMMAND ----------

# If a library is missing, run the cell above and restart Python.
import hyperopt, joblibspark, matplotlib, mdstorm, optuna, pyspark, torch

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
df = spark.range(1000).selectExpr("float(id / 1000) AS x", "float(3 * id / 1000) AS y")
converter = make_spark_converter(df.repartition(4), parent_cache_dir_url=CACHE)

# COMMAND ----------

# MAGIC %md
# MAGIC ## One trial
# MAGIC
# MAGIC All trials have the same `seed`, so that they differ by the learning rate and not by the
# MAGIC order of the rows. With `num_epochs=1` every row is read once.

# COMMAND ----------

import torch
from torch import nn


def train(converter, learning_rate):
    """Return the loss after one epoch, and the number of rows that were read."""
    torch.manual_seed(1)
    model, rows = nn.Linear(1, 1), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    with converter.make_torch_dataloader(
        batch_size=50, num_epochs=1, seed=1, shuffling_queue_capacity=1000
    ) as loader:
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch["x"][:, None])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += len(batch["x"])
    return loss.item(), rows


tried = {}


def show(tuner, trials):
    tried[tuner] = trials
    for learning_rate, loss, rows in trials:
        print(f"learning rate {learning_rate:.4f}: loss {loss:.6f} after {rows} rows")
    learning_rate, loss, _ = min(trials, key=lambda trial: trial[1])
    again, _ = train(converter, learning_rate)
    print(f"the best, {learning_rate:.4f}, trained again: loss {again:.6f}")


# COMMAND ----------

# MAGIC %md
# MAGIC ## Optuna

# COMMAND ----------

import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial):
    learning_rate = trial.suggest_float("learning_rate", 1e-3, 1.0, log=True)
    loss, rows = train(converter, learning_rate)
    trial.set_user_attr("rows", rows)
    return loss


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(objective, n_trials=4)
show("Optuna", [(t.params["learning_rate"], t.value, t.user_attrs["rows"]) for t in study.trials])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Hyperopt, with SparkTrials
# MAGIC
# MAGIC Spark sends the function to its workers with everything that the function uses. A converter
# MAGIC stores where the shards are and how many rows they have; the rows stay where they are.

# COMMAND ----------

import numpy as np
from hyperopt import STATUS_OK, SparkTrials, fmin, hp, tpe


def spark_objective(learning_rate):
    loss, rows = train(converter, learning_rate)
    return {"loss": loss, "rows": rows, "status": STATUS_OK}


trials = SparkTrials(parallelism=2)
best = fmin(
    spark_objective,
    hp.loguniform("learning_rate", np.log(1e-3), 0),
    algo=tpe.suggest,
    max_evals=4,
    trials=trials,
    rstate=np.random.default_rng(1),
    show_progressbar=False,
)
show(
    "Hyperopt",
    [
        (t["misc"]["vals"]["learning_rate"][0], t["result"]["loss"], t["result"]["rows"])
        for t in trials.trials
    ],
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## joblib, with Spark as its backend

# COMMAND ----------

import joblib
from joblibspark import register_spark

register_spark()
learning_rates = [0.001, 0.01, 0.1, 0.5]
with joblib.parallel_backend("spark", n_jobs=2):
    found = joblib.Parallel()(joblib.delayed(train)(converter, rate) for rate in learning_rates)
show("joblib", [(rate, loss, rows) for rate, (loss, rows) in zip(learning_rates, found)])

# COMMAND ----------

# MAGIC %md
# MAGIC ## All trials
# MAGIC
# MAGIC All twelve trials were trained on the same rows in the same order. They lie on one curve,
# MAGIC whichever tuner chose the learning rate and wherever the trial ran.

# COMMAND ----------

import matplotlib.pyplot as plt

plt.figure(figsize=(5, 2.5))
for tuner, trials in tried.items():
    learning_rates, losses, _ = zip(*trials)
    plt.loglog(learning_rates, losses, "o", label=tuner)
plt.xlabel("learning rate")
plt.ylabel("loss")
plt.legend()
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Clean up

# COMMAND ----------

converter.delete()
