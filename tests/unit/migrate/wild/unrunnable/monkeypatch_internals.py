import petastorm
import petastorm.spark.spark_dataset_converter
from petastorm.reader_impl.pytorch_shuffling_buffer import BatchedRandomShufflingBuffer
from petastorm.reader_impl.arrow_table_serializer import ArrowTableSerializer

original = petastorm.spark.spark_dataset_converter.make_spark_converter


def tracked(df, *a, **k):
    print("petastorm", df)
    return original(df, *a, **k)


petastorm.spark.spark_dataset_converter.make_spark_converter = tracked
petastorm.spark.make_spark_converter = tracked
setattr(petastorm, "make_reader", None)
del petastorm.spark.spark_dataset_converter._cache_df_meta_list[:]
petastorm.reader.Reader.__del__ = lambda self: self.stop()
