"""Rows of batches as the Python and NumPy values that users see."""
