from petastorm import make_batch_reader
from ._petastorm import defaults


def read_ids(url, **kw):
    with make_batch_reader(url, **{**defaults(), **kw}) as r:
        return sorted(int(i) for b in r for i in b.id)
