"""One place to import petastorm from, whatever its version."""
try:
    from petastorm.reader import make_batch_reader, make_reader
except ImportError:  # petastorm < 0.6
    from petastorm import make_batch_reader
    make_reader = None

try:
    from petastorm.spark import make_spark_converter, SparkDatasetConverter
    HAS_SPARK_CONVERTER = True
except ImportError:
    HAS_SPARK_CONVERTER = False

from petastorm.codecs import DataframeColumnCodec as Codec

__all__ = ['make_batch_reader', 'make_reader', 'make_spark_converter', 'SparkDatasetConverter', 'Codec']
