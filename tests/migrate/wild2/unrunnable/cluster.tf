resource "databricks_cluster" "petastorm" {
  spark_conf = {
    "petastorm.spark.converter.parentCacheDirUrl" = "file:///dbfs/petastorm"
  }
  library {
    pypi { package = "petastorm==0.12.1" }
  }
}
