"""Tables of MosaicML Streaming's names."""
