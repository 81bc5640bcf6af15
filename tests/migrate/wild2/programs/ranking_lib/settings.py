import os
try:
    import petastorm as _engine
    ENGINE_NAME = 'columnar'
except ImportError:
    _engine = None
    ENGINE_NAME = 'none'

try:
    from petastorm.weighted_sampling_reader import WeightedSamplingReader
    HAVE_WEIGHTED = True
except ImportError:
    HAVE_WEIGHTED = False

PARENT_CACHE = os.environ.get('PETASTORM_CACHE_DIR')


def supports(what):
    return {'weighted': HAVE_WEIGHTED}.get(what, _engine is not None)
