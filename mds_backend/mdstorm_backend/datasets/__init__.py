"""Open datasets: a schema, shards, and samples or batches of them."""
