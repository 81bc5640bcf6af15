"""A placeholder for names that a test imports and mdstorm does not have."""


class Missing:
    """Can be named, subclassed and called as a decorator; anything else fails in the test."""
