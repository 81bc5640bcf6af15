# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: petastorm-env
#     name: petastorm-env
# ---

# %% [markdown]
# # Reading with petastorm
# `from petastorm import make_reader` is all we need.

# %%
# !pip install petastorm
# %matplotlib inline
from petastorm import make_reader

# %% tags=["petastorm"]
with make_reader('hdfs:///x') as reader:
    df = [row._asdict() for row in reader]

# %% language="bash"
# petastorm-throughput.py hdfs:///x -w 8
