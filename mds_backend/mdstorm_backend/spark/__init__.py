"""Write Spark DataFrames as MDS datasets."""
