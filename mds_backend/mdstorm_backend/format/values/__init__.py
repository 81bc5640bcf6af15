"""Decoded values: batches of NumPy and Arrow columns, and the types of Arrow and Spark."""
