# Databricks notebook source
# MAGIC %scala
# MAGIC spark.conf.set("petastorm.spark.converter.parentCacheDirUrl", "file:///dbfs/tmp/x")

# COMMAND ----------

# MAGIC %sql SET petastorm.spark.converter.parentCacheDirUrl = file:///dbfs/tmp/y

# COMMAND ----------

import petastorm
from petastorm.spark import make_spark_converter
display(spark.table("petastorm.trips"))
conv = make_spark_converter(spark.table("petastorm.trips"))
