# Databricks notebook source
# MAGIC %md
# MAGIC # Oaks with petastorm

# COMMAND ----------

# MAGIC %pip install "mdstorm[torch]" pillow

# COMMAND ----------

from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm import TransformSpec

spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + directory)

# COMMAND ----------

# DBTITLE 1,Convert
import numpy as np

converter = make_spark_converter(spark.range(12).selectExpr("id", "id * 0.5D AS weight"))


def double(frame):
    frame["weight"] = frame["weight"] * 2
    return frame


spec = TransformSpec(double, edit_fields=[("weight", np.float32, (), False)])

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT 'petastorm'

# COMMAND ----------

with converter.make_torch_dataloader(batch_size=5, num_epochs=1, transform_spec=spec) as loader:
    result = sorted(weight for batch in loader for weight in batch["weight"].tolist())
result += [len(converter)]
