"""Which topic a struct is about: by name, by id, or by both."""

from collections.abc import Mapping

def topic_of(name: str | None, topic_id: str | None, names: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Name and id, None for what is not known; *names* are those of ids that the traffic has shown."""
