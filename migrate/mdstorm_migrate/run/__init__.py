"""Migrate files: find them, migrate each in one of several processes, and write them."""
