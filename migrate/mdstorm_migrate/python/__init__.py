"""Analysis of Python code: scopes, imports from Petastorm and their uses."""
