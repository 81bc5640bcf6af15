"""Implementation of the loaders in `mdstorm.pytorch`."""
