"""Batches to PyTorch, TensorFlow, pandas and NumPy."""
