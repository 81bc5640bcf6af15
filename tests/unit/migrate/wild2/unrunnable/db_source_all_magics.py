# Databricks notebook source
# MAGIC %md
# MAGIC # Petastorm + Horovod
# MAGIC We use [petastorm](https://petastorm.readthedocs.io/) to feed the data.

# COMMAND ----------

# MAGIC %pip install petastorm==0.9.8 horovod

# COMMAND ----------

# MAGIC %run ./includes/petastorm_setup $env="dev"

# COMMAND ----------

# MAGIC %sh
# MAGIC /databricks/python/bin/pip install petastorm
# MAGIC ls /dbfs/petastorm
# MAGIC python -c "from petastorm import make_reader"

# COMMAND ----------

# MAGIC %scala
# MAGIC spark.conf.set("petastorm.spark.converter.parentCacheDirUrl", "file:///dbfs/petastorm/cache")

# COMMAND ----------

# MAGIC %r
# MAGIC library(reticulate)
# MAGIC petastorm <- import("petastorm")

# COMMAND ----------

# MAGIC %sql
# MAGIC SET petastorm.spark.converter.parentCacheDirUrl = file:///dbfs/petastorm/cache

# COMMAND ----------

# MAGIC %python
# MAGIC from petastorm import make_batch_reader

# COMMAND ----------

# DBTITLE 1,Train with petastorm
from petastorm.spark import SparkDatasetConverter, make_spark_converter
import horovod.torch as hvd
from sparkdl import HorovodRunner

spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, 'file:///dbfs/petastorm/cache')  # noqa: F821
converter = make_spark_converter(df)  # noqa: F821


def train_hvd():
    hvd.init()
    with converter.make_torch_dataloader(cur_shard=hvd.rank(), shard_count=hvd.size(), batch_size=32) as loader:
        for b in loader:
            pass


HorovodRunner(np=2).run(train_hvd)

# COMMAND ----------

# MAGIC %fs rm -r /petastorm/cache

# COMMAND ----------

dbutils.notebook.run("./petastorm_cleanup", 60, {"lib": "petastorm"})  # noqa: F821
