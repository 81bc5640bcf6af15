# ---
# jupyter:
#   kernelspec:
#     name: python3
# ---

# %% [markdown]
# # Oaks, by petastorm

# %%
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

# %% tags=["conf"]
spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file:///dbfs/oaks")

# %%
# !pip install mdstorm
converter = make_spark_converter(df)
