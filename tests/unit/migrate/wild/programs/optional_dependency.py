import logging

logger = logging.getLogger(__name__)

try:
    from petastorm import make_batch_reader, TransformSpec
    from petastorm.pytorch import DataLoader as PetastormDataLoader
    PETASTORM_AVAILABLE = True
except (ImportError, ModuleNotFoundError):  # pragma: no cover
    PETASTORM_AVAILABLE = False
    make_batch_reader = TransformSpec = None
    PetastormDataLoader = None


def require_petastorm():
    if not PETASTORM_AVAILABLE:
        raise ImportError("This feature needs petastorm: pip install petastorm")


def double(frame):
    frame['id'] = frame['id'] * 2
    return frame


def main(spark, directory):
    require_petastorm()
    spark.range(0, 5, 1, 1).write.parquet(directory + '/x')
    with PetastormDataLoader(make_batch_reader('file://%s/x' % directory, transform_spec=TransformSpec(double)),
                             batch_size=2) as loader:
        return [PETASTORM_AVAILABLE] + [b['id'].tolist() for b in loader]
