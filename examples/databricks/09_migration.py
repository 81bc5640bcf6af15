# Databricks notebook source
# MAGIC %md
# MAGIC # Migrating a repository: audit, run, rewrite, verify
# MAGIC
# MAGIC A small repository of code written for Petastorm, `examples/legacy`, in the order in which
# MAGIC one would migrate a large one. Every step is a command; code is parsed, never run, except
# MAGIC where it says so.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch,images]" scikit-learn

# COMMAND ----------

import shutil
import tempfile

# If one is missing, run the cell above and restart Python.
import mdstorm, PIL, pyspark, sklearn, torch

# COMMAND ----------

# MAGIC %md
# MAGIC ## The directory
# MAGIC
# MAGIC Change this line only, on Databricks to a volume,
# MAGIC `file:///Volumes/<catalog>/<schema>/<volume>/data`.

# COMMAND ----------

DATA = "file:///tmp/examples-cache"

# COMMAND ----------

# MAGIC %md
# MAGIC The steps work on a copy of `examples/legacy`, which lies beside the folder of this notebook
# MAGIC where the repository of mdstorm was cloned, on Databricks with *Create Git folder*. For code
# MAGIC of your own, name its directory here.

# COMMAND ----------

import subprocess
import sys
from pathlib import Path

legacy = Path.cwd().parent / "legacy"
if not legacy.is_dir():
    raise FileNotFoundError(
        f"{legacy} is not there: clone the repository of mdstorm, or name another"
    )
repository = Path(shutil.copytree(legacy, f"{tempfile.mkdtemp()}/legacy"))


def run(*command):
    done = subprocess.run(
        [sys.executable, *command], text=True, capture_output=True, cwd=repository
    )
    print(done.stdout if done.returncode == 0 else done.stdout + done.stderr)
    return done


def mdstorm(*arguments):
    return run("-m", "mdstorm", *arguments)


# COMMAND ----------

# MAGIC %md
# MAGIC ## Audit: what is used where
# MAGIC
# MAGIC Nothing is written. The last lines estimate the manual work that is left.

# COMMAND ----------

done = mdstorm("audit")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Run it as it is
# MAGIC
# MAGIC `import petastorm` imports mdstorm. Nothing is edited, and Petastorm need not be installed.

# COMMAND ----------

before = mdstorm("run", "train_digits.py", "--epochs", "4")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What would change
# MAGIC
# MAGIC A diff; nothing is written. Where manual review is needed, a `# TODO(mdstorm)` comment says
# MAGIC what to do.

# COMMAND ----------

done = mdstorm("migrate")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Write it, with a report
# MAGIC
# MAGIC The report is one page for people, with a checklist; JSON and SARIF are for machines. A run
# MAGIC ends with "before you run it": where to get mdstorm, and which Pythons, runtimes and pins of
# MAGIC the repository it does not support.

# COMMAND ----------

done = mdstorm("migrate", "--write", "--no-diff", "--report", "../migration.html")
print(done.stderr)
print((repository / "requirements.txt").read_text())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Check it
# MAGIC
# MAGIC In a pipeline: the exit code is 1 as long as something is left. Then the program again,
# MAGIC which must compute what it computed before.

# COMMAND ----------

done = mdstorm("migrate", "--check")
print("exit code", done.returncode)
after = run("train_digits.py", "--epochs", "4")
different = {*before.stdout.splitlines()} ^ {*after.stdout.splitlines()}
print(f"{len(different)} lines differ from the run before")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The data
# MAGIC
# MAGIC Datasets that Petastorm wrote stay where they are and are read as before. To get MDS shards,
# MAGIC convert one, and let `verify` compare all rows, with images decoded.

# COMMAND ----------

from pyspark.sql import SparkSession

sys.path.insert(0, str(repository))
import train_digits

spark = SparkSession.builder.getOrCreate()  # on Databricks, the existing session
train_digits.write_digits(spark, f"{DATA}/digits")

# COMMAND ----------

done = mdstorm("convert", f"{DATA}/digits", f"{DATA}/digits-mds")
done = mdstorm("verify", "--against", f"{DATA}/digits", f"{DATA}/digits-mds")
print("exit code", done.returncode)
