"""Loaders: passes over a dataset, their batches, nulls and states."""
