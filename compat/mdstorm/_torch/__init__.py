"""What the loaders of `mdstorm.pytorch` are made of."""
