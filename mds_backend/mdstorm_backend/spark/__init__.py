"""Writing Spark DataFrames as MDS datasets."""
