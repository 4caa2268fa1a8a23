"""Key services: what holds the keys that wrap data keys.

    contract.py   KeyService, DataKey and the errors: what each key service does
    settings.py   KeySettings: which one to use, and its options, as plain values
    loading.py    key services by name, also those of other packages

    with closing(key_service(settings)) as service:
        made = service.new_data_key("orders")
        assert service.unwrap("orders", made.wrapped) == made.plain

To add a key service: a class with ``Options`` and the three methods of KeyService, and its entry point in the group
``kproxy.key_services``.
"""

from kproxy.encryption.services.contract import (
    DataKey,
    KeyDestroyed,
    KeyRefused,
    KeyService,
    KeyServiceAway,
    KeyServiceError,
)
from kproxy.encryption.services.settings import KeySettings

__all__ = [
    "DataKey",
    "KeyDestroyed",
    "KeyRefused",
    "KeyService",
    "KeyServiceAway",
    "KeyServiceError",
    "KeySettings",
    "key_service",
]


def key_service(settings: KeySettings) -> KeyService:
    """Make the key service that *settings* name; it connects when it is used. Raises UsageError."""
    from kproxy.encryption.services.loading import service_class  # noqa: PLC0415 - settings.py imports this package

    return service_class(settings.use)(settings.options())
