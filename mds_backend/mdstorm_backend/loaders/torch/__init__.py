"""PyTorch: `StreamingDataset`, `StreamingDataLoader` and tensors."""
