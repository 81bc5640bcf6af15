"""Analysis of Python code: its scopes, and what it imports and uses of Petastorm."""
