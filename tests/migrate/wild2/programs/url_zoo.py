from petastorm import make_batch_reader
from petastorm.fs_utils import normalize_dir_url, FilesystemResolver
from petastorm.reader import normalize_dataset_url_or_urls
import glob
import fsspec

URLS = dict(local='file://{d}/u', slash='file://{d}/u/', three='file:///{rel}/u')
REMOTE = ['s3://bucket/petastorm/ds', 'gs://b/p', 'hdfs://nameservice1/petastorm_data', 'abfss://c@acc.dfs.core.windows.net/x']


def count(u, **k):
    with make_batch_reader(u, **k) as r:
        return sum(len(b[0]) for b in r)


def err(f, *a, **k):
    try:
        f(*a, **k)
    except Exception as e:   # noqa
        return type(e).__name__
    return None


def main(spark, directory):
    spark.range(8).repartition(2).write.parquet(directory + '/u')
    fmt = {'d': directory, 'rel': directory.lstrip('/')}
    out = {k: count(v.format(**fmt)) for k, v in URLS.items()}
    parts = sorted(glob.glob(directory + '/u/*.parquet'))
    out['list'] = count(['file://' + p for p in parts])
    out['one'] = count('file://' + parts[0]) + count('file://' + parts[1])
    out['options'] = count('file://' + directory + '/u', storage_options={'auto_mkdir': False})
    out['normal'] = [normalize_dir_url(u) for u in REMOTE] + [normalize_dir_url('file:///x/y///')]
    out['many'] = normalize_dataset_url_or_urls(['file:///a/', 'file:///b'])
    out['errors'] = [err(make_batch_reader, directory + '/u'), err(make_batch_reader, []), err(make_batch_reader, None),
                     err(make_batch_reader, ['file:///a', 's3://b/c']), err(normalize_dir_url, 7),
                     err(FilesystemResolver, 'no/scheme')]
    return out
