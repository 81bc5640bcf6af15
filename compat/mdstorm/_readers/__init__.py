"""Readers: arguments, options, and the `Reader` itself."""
