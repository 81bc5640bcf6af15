"""What only MosaicML Streaming's API has, for `mdstorm_backend.streaming` to name."""
