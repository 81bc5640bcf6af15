def get_converter(spark, df, where):
    from petastorm.spark import SparkDatasetConverter
    from petastorm.spark import make_spark_converter
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, where)
    return make_spark_converter(df)


def _loader(url, columns):
    import petastorm
    from petastorm.pytorch import BatchedDataLoader
    return BatchedDataLoader(petastorm.make_batch_reader(url, schema_fields=columns, num_epochs=1,
                                                        shuffle_row_groups=False), batch_size=4)


class Job:
    def run(self, spark, directory):
        df = spark.range(0, 6, 1, 1).selectExpr("cast(id as int) id", "cast(id as float) / 2 as half", "'x' as noise")
        df.write.parquet(directory + "/raw")
        with _loader("file://" + directory + "/raw", ["id", "half"]) as loader:
            rows = [{k: v.tolist() for k, v in sorted(b.items())} for b in loader]
        conv = get_converter(spark, df.drop("noise"), "file://" + directory + "/cache")
        return {"rows": rows, "len": len(conv), "files": len(conv.file_urls)}


def main(spark, directory):
    return Job().run(spark, directory)
