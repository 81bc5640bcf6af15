"""Monkeypatches that we carry since 2019"""
import functools
import petastorm.fs_utils
import petastorm.reader
from petastorm import fs_utils
from petastorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths, get_dataset_path
from six.moves.urllib.parse import urlparse

CALLS = []
_orig = fs_utils.get_filesystem_and_path_or_paths


@functools.wraps(_orig)
def _traced(url_or_urls, *args, **kwargs):
    CALLS.append(url_or_urls)
    return _orig(url_or_urls, *args, **kwargs)


class patched(object):
    def __enter__(self):
        petastorm.reader.get_filesystem_and_path_or_paths = _traced

    def __exit__(self, *exc):
        petastorm.reader.get_filesystem_and_path_or_paths = _orig


def main(spark, directory):
    url = 'file://' + directory + '/mp'
    spark.range(5).write.parquet(directory + '/mp')
    with patched():
        with petastorm.reader.make_batch_reader(url) as reader:
            n = sum(len(b.id) for b in reader)
    resolver = FilesystemResolver(url, hdfs_driver='libhdfs')
    fs, path = get_filesystem_and_path_or_paths(url)
    both = get_filesystem_and_path_or_paths([url + '/a', url + '/b'])[1]
    return [n, [c == url for c in CALLS], resolver.get_dataset_path() == directory + '/mp',
            path == directory + '/mp', [b[-2:] for b in both], fs.exists(path),
            get_dataset_path(urlparse('hdfs://nn/some/path')), resolver.parsed_dataset_url().scheme,
            callable(resolver.filesystem_factory())]
