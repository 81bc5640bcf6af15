"""Stored datasets with a Unischema: their metadata, and decoding their columns."""
