"""Rewrite code written for Petastorm so that it uses mdstorm.

Needs nothing but the base install: neither Spark, torch nor TensorFlow is imported, and the code
being migrated is parsed, never run.
"""
