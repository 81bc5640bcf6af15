"""Converting stored datasets to MDS, and comparing the copies."""
