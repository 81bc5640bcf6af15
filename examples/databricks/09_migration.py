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

# What this notebook needs. If something is missing, this cell says what, and what to do.
import importlib.util
import os
import shutil
import tempfile

MODULES = {
    "pyspark": "pyspark",
    "mdstorm": "mdstorm",
    "torch": "torch",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
}

problems = [
    f"the module {module} is missing: run %pip install {package}, and restart Python"
    for module, package in MODULES.items()
    if importlib.util.find_spec(module) is None
]
java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
if "pyspark" in MODULES and not on_databricks and shutil.which(java) is None:
    problems.append("Spark needs Java: install version 17 or newer, or set JAVA_HOME to it")
if shutil.disk_usage(tempfile.gettempdir()).free < 1 << 30:
    problems.append(f"less than 1 GiB is free in {tempfile.gettempdir()}: free some, or set TMPDIR")
if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") < 4 << 30:
    problems.append("this machine has less than 4 GiB of memory: take a larger one")
if problems:
    raise RuntimeError("\n".join(problems))

# COMMAND ----------

# MAGIC %md
# MAGIC ## The directory
# MAGIC
# MAGIC It is the only line to change, on Databricks to a volume,
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
print("nothing is left:", done.returncode == 0)
after = run("train_digits.py", "--epochs", "4")
print("the same as before:", before.stdout == after.stdout)

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

spark = SparkSession.builder.getOrCreate()  # on Databricks the session that is there
train_digits.write_digits(spark, f"{DATA}/digits")

# COMMAND ----------

done = mdstorm("convert", f"{DATA}/digits", f"{DATA}/digits-mds")
done = mdstorm("verify", "--against", f"{DATA}/digits", f"{DATA}/digits-mds")
print("all rows are the same:", done.returncode == 0)
