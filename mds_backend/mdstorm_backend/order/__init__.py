"""The ``exact`` order, and the ranks that share it."""
