"""Metadata and column decoding for stored datasets with a Unischema."""
