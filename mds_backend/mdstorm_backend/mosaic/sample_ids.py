"""Functions of the elastic order, with the names of MosaicML Streaming."""

from __future__ import annotations

from functools import partial

from mdstorm_backend.elastic import partition, shuffle
from mdstorm_backend.elastic.sampling import samples_per_shard

get_partitions = partition
get_sampling = samples_per_shard
get_shuffle = shuffle

#: Each takes what `get_partitions` takes after the name of the algorithm.
get_partitions_orig = partial(get_partitions, "orig")
get_partitions_relaxed = partial(get_partitions, "relaxed")
#: Each takes what `get_shuffle` takes after the name of the algorithm.
get_shuffle_naive = partial(get_shuffle, "naive")
get_shuffle_py1br = partial(get_shuffle, "py1br")
get_shuffle_py1e = partial(get_shuffle, "py1e")
get_shuffle_py1s = partial(get_shuffle, "py1s")
get_shuffle_py2s = partial(get_shuffle, "py2s")
