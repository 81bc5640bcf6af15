STATE = {}


def install(spark, directory):
    url = 'file://%s/suite' % directory
    spark.range(12).repartition(2).write.parquet(directory + '/suite')
    STATE.update(url=url, spark=spark)
