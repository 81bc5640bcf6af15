from petastorm.spark import make_spark_converter


def count(df):
    converter = make_spark_converter(df)
    try:
        return len(converter)
    finally:
        converter.delete()
