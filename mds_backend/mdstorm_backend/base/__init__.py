"""Errors, threads and optional libraries: helpers that know nothing of data."""
