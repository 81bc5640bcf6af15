import importlib.util
import inspect
import sys
import warnings
from distutils.version import LooseVersion

import petastorm
from packaging.version import Version, parse as parse_version

try:
    from importlib import metadata as importlib_metadata
except ImportError:
    import importlib_metadata

PETASTORM_GE_0_9 = parse_version(petastorm.__version__) >= parse_version('0.9.0')
if LooseVersion(petastorm.__version__) < LooseVersion('0.7.0'):
    raise ImportError('need petastorm>=0.7, got {}'.format(petastorm.__version__))


def installed(name='petastorm'):
    try:
        return importlib_metadata.version(name)
    except importlib_metadata.PackageNotFoundError:
        return None


def supported_kwargs(fn):
    return set(inspect.signature(fn).parameters)


def reader_kwargs(**wanted):
    ok = supported_kwargs(petastorm.make_batch_reader)
    return {k: v for k, v in wanted.items() if k in ok}


def main(spark, directory):
    spark.range(4).write.parquet(directory + '/v')
    kw = reader_kwargs(zmq_copy_buffers=False, shuffle_rows=True, seed=3, brand_new_option=1)
    with petastorm.make_batch_reader('file://' + directory + '/v', **kw) as r:
        n = sum(len(x.id) for x in r)
    has_tools = importlib.util.find_spec('petastorm.tools') is not None
    has_gpu = importlib.util.find_spec('petastorm.gpu') is not None
    return [PETASTORM_GE_0_9, installed() is not None, installed('petastorm-extras'), sorted(kw), n, has_tools, has_gpu,
            Version(petastorm.__version__) > Version('0.5')]
