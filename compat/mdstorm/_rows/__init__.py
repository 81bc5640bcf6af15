"""Convert batches to the Python and NumPy values that users see."""
