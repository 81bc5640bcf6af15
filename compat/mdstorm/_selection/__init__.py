"""Select rows and row groups: predicates, filters, selectors and n-grams."""
