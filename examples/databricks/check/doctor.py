# Databricks notebook source
# MAGIC %md
# MAGIC # Check the set-up
# MAGIC
# MAGIC This compute's Spark writes a small table with every type to a directory, and PyTorch reads
# MAGIC it back. Every value is compared, and the table is deleted. `cache` is a directory that all
# MAGIC machines see, such as `dbfs:/Volumes/<catalog>/<schema>/<volume>/cache`.

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]"

# COMMAND ----------

dbutils.widgets.text("cache", "")

# COMMAND ----------

from mdstorm.doctor import check_setup

report = check_setup(dbutils.widgets.get("cache") or None, spark=spark)
print(report)
assert not report.problems
