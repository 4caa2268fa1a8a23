"""Principal: who a client has proved to be, by SASL or by its certificate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Principal:
    """A client that has authenticated, or an anonymous one.

    Attributes:
        name: as in Kafka's "User:name".
        mechanism: "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"; "SSL" if the name is of a certificate;
            empty if it is anonymous.
        groups: from the users file, or from the token.
        claims: of the token; empty without one. Claims are not secret, the token is, and is not kept.
        lifetime_ms: how long the session may last from now on, as the client was told (KIP-368); 0: no limit.
    """

    name: str
    mechanism: str = ""
    groups: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    lifetime_ms: int = 0


ANONYMOUS = Principal("ANONYMOUS")  # KafkaPrincipal.ANONYMOUS
