object Job { val conf = "petastorm.spark.converter.parentCacheDirUrl" /* petastorm */ }
