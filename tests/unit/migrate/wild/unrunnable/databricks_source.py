# Databricks notebook source
# MAGIC %md
# MAGIC # Image training with petastorm
# MAGIC Petastorm keeps a copy of the data in `file:///dbfs/tmp/petastorm/cache`.

# COMMAND ----------

# MAGIC %pip install petastorm==0.12.1 torchvision

# COMMAND ----------

# MAGIC %run ./includes/setup

# COMMAND ----------

from petastorm.spark import SparkDatasetConverter, make_spark_converter

spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file:///dbfs/tmp/petastorm/cache")
dbutils.library.installPyPI("petastorm", version="0.9.0")

# COMMAND ----------

# MAGIC %sh
# MAGIC pip install --upgrade petastorm && ls /dbfs/tmp/petastorm

# COMMAND ----------

converter_train = make_spark_converter(df_train)
!nvidia-smi

# COMMAND ----------

def train_hvd(lr):
  import horovod.torch as hvd
  hvd.init()
  with converter_train.make_torch_dataloader(cur_shard=hvd.rank(), shard_count=hvd.size(), batch_size=64) as dl:
    for batch in dl:
      step(batch)

from sparkdl import HorovodRunner
HorovodRunner(np=2).run(train_hvd, lr=1e-3)
