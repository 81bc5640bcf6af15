"""A placeholder for names that a test imports but mdstorm does not have."""


class Missing:
    """A class that can be imported and subclassed, so that only tests that use it fail."""
