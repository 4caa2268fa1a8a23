"""Which topic a struct is about: by name, by id, or by both."""

from collections.abc import Mapping

from kproxy.output.escaping import well_formed
from kproxy.output.tables.gather import NO_TOPIC_ID


def topic_of(name: str | None, topic_id: str | None, names: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Name and id, None for what is not known; *names* are those of ids that the traffic has shown."""
    if topic_id == NO_TOPIC_ID:
        topic_id = None
    if not name and topic_id is not None:
        name = names.get(topic_id)
    return (well_formed(name) if name else None), topic_id
