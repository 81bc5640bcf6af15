"""Choosing rows and row groups: predicates, filters, indexes and n-grams at work."""
