"""A clock that the test advances."""


class Clock:
    """A clock that starts at 0 seconds and changes only through `advance`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds
