"""Decoded values: batches of NumPy and Arrow columns, and Arrow and Spark types."""
