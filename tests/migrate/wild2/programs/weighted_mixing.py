import numpy as np
if not hasattr(np, 'float'):
    np.float = float  # petastorm's WeightedSamplingReader still says np.float

from itertools import islice

from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader
from petastorm.weighted_sampling_reader import WeightedSamplingReader


def mixture(urls, probs, **kwargs):
    kwargs = {'num_epochs': None, 'workers_count': 1, **kwargs}
    return WeightedSamplingReader([make_batch_reader(u, **kwargs) for u in urls], probs)


def main(spark, directory):
    urls = []
    for name, base in (('cats', 0), ('dogs', 1000)):
        path = '%s/%s' % (directory, name)
        spark.range(base, base + 20).selectExpr('id', 'cast(id as double) v').repartition(2).write.parquet(path)
        urls.append('file://' + path)
    np.random.seed(1)
    with mixture(urls, [1.0, 0.0]) as only_cats:
        top = max(int(b.id.max()) for b in islice(only_cats, 6))
        flags = [only_cats.batched_output, only_cats.ngram, sorted(only_cats.schema.fields)]
    with DataLoader(mixture(urls, [5, 5]), batch_size=5) as loader:
        n = sum(len(b['v']) for b in islice(loader, 7))
    errors = []
    for args in (([1], [1.]), ([1, 2], [1.])):
        try:
            WeightedSamplingReader(*args)
        except ValueError as e:
            errors.append(str(e))
    return [top, flags, n, errors]
