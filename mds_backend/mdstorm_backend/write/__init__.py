"""Arrow data to MDS shards."""
