# %% [markdown]
# Install petastorm first.
# %%
# !pip install petastorm
from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader

# %% read
url = "s3://bucket/petastorm/train"
with DataLoader(make_batch_reader(url, num_epochs=None, storage_options={"anon": True}), batch_size=64) as loader:
    print(next(iter(loader)))
# %%
get_ipython().run_line_magic("pip", "install petastorm==0.11.0")
