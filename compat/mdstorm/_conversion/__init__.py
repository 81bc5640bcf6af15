"""Convert stored datasets to MDS, and compare the copies."""
