"""Migrate files: find them, migrate each, and write them, in several processes."""
