"""Migrate files: find them, migrate each, write them in several processes."""
