"""What a body holds anywhere in it: error codes, topics, groups, transactional ids, partitions.

The facts say which fields these are (names of error codes, entity types), so that no API is forgotten. What leads nowhere is
not visited.
"""

from kproxy.protocol.structs import Struct

class Found:
    """Different values in the order in which they occur."""

    partitions: int

    def __init__(self, error_codes: dict[int, None] | None = None) -> None: ...
    @property
    def error_codes(self) -> dict[int, None]: ...
    @property
    def topics(self) -> dict[str, None]: ...
    @property
    def topic_ids(self) -> dict[str, None]: ...
    @property
    def groups(self) -> dict[str, None]: ...
    @property
    def transactional_ids(self) -> dict[str, None]: ...

class Plan:
    """Which fields of a struct at a version are looked at."""

    @property
    def leads_somewhere(self) -> bool:
        """Whether there is anything to find."""

def plan_of(message: str, version: int) -> Plan:
    """The plan for a message at a version."""

def gather(plan: Plan, struct: Struct, found: Found) -> None:
    """Add what *struct*, decoded at the plan's version, holds."""
