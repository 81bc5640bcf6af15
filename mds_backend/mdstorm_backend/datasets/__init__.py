"""Opened datasets: a schema, shards, and batches or samples of them."""
