"""A clock whose time the test sets."""


class Clock:
    """Called like ``time.monotonic``; gives ``now``, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
