"""MDS shards to batches."""
