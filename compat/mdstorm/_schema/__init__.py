"""Unischema, codecs, and the Spark and NumPy types of fields."""
