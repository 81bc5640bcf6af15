"""The converter: DataFrames become datasets, and datasets become loaders."""
