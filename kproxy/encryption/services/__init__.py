"""Key services: what holds the keys that wrap data keys.

    contract.py   KeyService, DataKey and the errors: what each key service does
    settings.py   KeySettings: which one to use, and its options, as plain values
    loading.py    key services by name, also those of other packages
    bounded.py    Bounded: each of them ends within a time, and what it answers is checked
    deadline.py   answered_within: a request over HTTP ends, however slowly its answer comes
    key_set.py    "file": keys in a sealed file
    vault.py      "vault": Vault's or OpenBao's transit engine; VaultClient, which asks Vault within bounds
    aws_kms.py    "aws_kms": AWS Key Management Service

    with closing(key_service(settings)) as service:
        made = service.new_data_key("orders")
        assert service.unwrap("orders", made.wrapped) == made.plain

To add a key service: a class with ``Options`` and the three methods of KeyService, and its entry point in the group
``kproxy.key_services``.
"""

from kproxy.encryption.services.bounded import Bounded
from kproxy.encryption.services.contract import (
    DataKey,
    KeyDestroyed,
    KeyFacts,
    KeyManager,
    KeyRefused,
    KeyService,
    KeyServiceAway,
    KeyServiceError,
)
from kproxy.encryption.services.loading import service_class
from kproxy.encryption.services.settings import KeySettings

__all__ = [
    "DataKey",
    "KeyDestroyed",
    "KeyFacts",
    "KeyManager",
    "KeyRefused",
    "KeyService",
    "KeyServiceAway",
    "KeyServiceError",
    "KeySettings",
    "key_service",
    "unbounded",
]


def key_service(settings: KeySettings) -> KeyService:
    """Make the key service that *settings* name, within their bounds; it connects when it is used. Raises UsageError."""
    return Bounded(unbounded(settings), settings.timeout)


def unbounded(settings: KeySettings) -> KeyService:
    """Make the key service as it is, for a person who may interrupt it. Raises UsageError."""
    return service_class(settings.use)(settings.options())
