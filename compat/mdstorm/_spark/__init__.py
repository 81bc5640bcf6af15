"""The converter, which turns DataFrames into datasets, and datasets into loaders."""
