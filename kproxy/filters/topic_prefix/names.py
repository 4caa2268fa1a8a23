"""The names of one tenant: how clients call its topics, groups and transactional ids, and how brokers call them.

The client's name is the broker's name without the prefix. A broker's name that does not begin with the prefix belongs to another
tenant or to Kafka itself (``__consumer_offsets``), and no client of this tenant sees it. Two exceptions, for names that Kafka
itself refuses:

* A topic name that Kafka does not allow (``Topic.validate``: "", ".", "..", more than 249 characters, others than letters,
  digits, ".", "_", "-") is not prefixed: the broker refuses it with its own error, while a prefix could make it legal.
  No tenant has such a topic, so the name may come back as it went.
* An empty group or transactional id is not prefixed where brokers refuse it. Where they accept it, every tenant has an empty
  group of its own: the broker's name of it is the prefix.
"""

import re
from enum import Enum

from kproxy.protocol.constants import METADATA_TOPIC

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
LEGAL_PREFIX = re.compile(r"[a-zA-Z0-9._-]{1,100}")
KAFKAS_OWN = (
    METADATA_TOPIC,
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__remote_log_metadata",
)
MOST_BYTES = 32_767  # of a string on the wire


class Kind(Enum):
    """The kind of thing that a name names."""

    TOPIC = "topic"
    CLUSTER_TOPIC = "topic of the quorum"  # DescribeQuorum: __cluster_metadata, the same for all tenants
    GROUP = "group"
    GROUP_OR_NONE = "group, or an empty name"  # in APIs that take an empty group id
    TRANSACTIONAL_ID = "transactional id"


class TooLong(ValueError):
    """A name that is too long for the wire with its prefix."""


class Names:
    """Translates names between the clients of one tenant and the brokers. Raises ValueError for an unusable prefix."""

    def __init__(self, prefix: str) -> None:
        if not LEGAL_PREFIX.fullmatch(prefix):
            raise ValueError(
                "the prefix has to be 1 to 100 of the characters that Kafka allows: letters, digits, '.', '_', '-'"
            )
        if any(topic.startswith(prefix) for topic in KAFKAS_OWN):
            raise ValueError(
                f"with the prefix {prefix} a tenant would have topics of Kafka's own, such as __consumer_offsets"
            )
        self.prefix = prefix
        self._size = len(prefix)
        # At the beginning of a word only: the prefix "a." is not in "metadata."
        self._in_text = re.compile(rf"(?<![a-zA-Z0-9._-]){re.escape(prefix)}")

    def to_broker(self, kind: Kind, name: str) -> str:
        """Return the broker's name of what a client calls *name*. Raises TooLong."""
        if self._is_refused_by_kafka(kind, name):
            return name
        if len(name) > MOST_BYTES - self._size:  # characters; topics are far shorter
            raise TooLong(f"a {kind.value} of {len(name)} characters is too long for a prefix")
        return self.prefix + name

    def to_client(self, kind: Kind, name: str) -> str | None:
        """Return the client's name of what brokers call *name*; None: it is not the tenant's."""
        if name.startswith(self.prefix):
            return name[self._size :]
        return name if self._is_refused_by_kafka(kind, name) else None

    def is_ours(self, name: str) -> bool:
        """Return whether a broker's name belongs to this tenant."""
        return name.startswith(self.prefix)

    def in_text(self, text: str) -> str:
        """Return an error message without the prefix in front of names."""
        return self._in_text.sub("", text) if self.prefix in text else text

    @staticmethod
    def _is_refused_by_kafka(kind: Kind, name: str) -> bool:
        match kind:
            case Kind.TOPIC:
                return not is_legal_topic(name)
            case Kind.CLUSTER_TOPIC:
                return name == METADATA_TOPIC or not is_legal_topic(name)
            case Kind.GROUP_OR_NONE:
                return False
        return not name


def is_legal_topic(name: str) -> bool:
    """Return whether Kafka allows a topic of that name (org.apache.kafka.common.internals.Topic.validate)."""
    return LEGAL_TOPIC.fullmatch(name) is not None and name not in (".", "..")
