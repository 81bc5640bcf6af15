"""The ``exact`` order, and the world of processes that share it."""
