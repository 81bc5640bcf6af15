# Databricks notebook source
# MAGIC %md
# MAGIC # Migrating a repository: audit, run, rewrite, verify
# MAGIC
# MAGIC This notebook migrates a small repository that was written for Petastorm, `examples/legacy`,
# MAGIC in the same steps as a large one. Every step is a command. Code is parsed and not run,
# MAGIC except where a step says so.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch,images]" matplotlib scikit-learn

# COMMAND ----------

import shutil
import tempfile

# If a library is missing, run the cell above and restart Python.
import matplotlib, mdstorm, PIL, pyspark, sklearn, torch

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
# MAGIC The steps work on a copy of `examples/legacy`, which is next to the folder of this notebook
# MAGIC in a clone of mdstorm's repository. On Databricks, *Create Git folder* makes a clone. To
# MAGIC migrate your own code, set its directory here.

# COMMAND ----------

import subprocess
import sys
from pathlib import Path

legacy = Path.cwd().parent / "legacy"
if not legacy.is_dir():
    raise FileNotFoundError(
        f"{legacy} is not there: clone mdstorm's repository, or set another directory"
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
# MAGIC ## Audit: which names are used where
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
# MAGIC `mdstorm migrate` shows a diff and writes nothing. Where manual review is needed, a `#
# MAGIC TODO(mdstorm)` comment explains what to do.

# COMMAND ----------

done = mdstorm("migrate")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Write it, with a report
# MAGIC
# MAGIC The report is one page for people, with a checklist; JSON and SARIF are for other programs.
# MAGIC The output also has a section "before you run it", about where to get mdstorm and which of
# MAGIC the repository's Python versions, runtimes and pinned libraries mdstorm does not support.

# COMMAND ----------

done = mdstorm("migrate", "--write", "--no-diff", "--report", "../migration.html")
print(done.stderr)
print((repository / "requirements.txt").read_text())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Check it
# MAGIC
# MAGIC In a pipeline, `--check` exits with 1 as long as something is left to migrate. The program
# MAGIC must still print what it printed before.

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
# MAGIC convert a dataset. `verify` then compares all rows, with images decoded.

# COMMAND ----------

from pyspark.sql import SparkSession

sys.path.insert(0, str(repository))
import train_digits

# Databricks already has a session; elsewhere, start one without Spark's own progress bars.
spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
train_digits.write_digits(spark, f"{DATA}/digits")

# COMMAND ----------

done = mdstorm("convert", f"{DATA}/digits", f"{DATA}/digits-mds")
done = mdstorm("verify", "--against", f"{DATA}/digits", f"{DATA}/digits-mds")
print("exit code", done.returncode)

# COMMAND ----------

# MAGIC %md
# MAGIC `make_reader` reads both formats. The upper digits are from the dataset in Petastorm's
# MAGIC format, the lower ones from its copy in MDS.

# COMMAND ----------

import matplotlib.pyplot as plt
from mdstorm import make_reader

_, axes = plt.subplots(2, 12, figsize=(8, 2))
for line, url in zip(axes, (f"{DATA}/digits", f"{DATA}/digits-mds")):
    with make_reader(url, num_epochs=1, shuffle_row_groups=False) as reader:
        for axis, row in zip(line, reader):
            axis.imshow(row.image, cmap="gray_r")
            axis.set_title(row.label)
            axis.axis("off")
plt.tight_layout()
plt.show()
