"""Python code as rules see it: its scopes, and what it imports and uses of Petastorm."""
