"""Key services by name: kproxy's own, and those that other packages register (entry point group ``kproxy.key_services``)."""

import importlib
from typing import Any, Protocol

import msgspec

from kproxy.encryption.services.contract import KeyService
from kproxy.errors import UsageError, did_you_mean
from kproxy.options import OptionMistakes, quoted

GROUP = "kproxy.key_services"
BUILT_IN = {
    "file": "kproxy.encryption.services.key_set:KeySet",
    "vault": "kproxy.encryption.services.vault:VaultTransit",
    "aws_kms": "kproxy.encryption.services.aws_kms:AwsKms",
}  # as pyproject.toml registers them


class ServiceClass(Protocol):
    """A class whose instances are key services.

    Its constructor takes the options, connects to nothing, and raises UsageError where a file or a library is missing.
    """

    Options: type[msgspec.Struct]

    def __call__(self, options: Any) -> KeyService: ...


def service_class(use: str) -> ServiceClass:
    """Return the class of a key service. Raises OptionMistakes if there is none of this name."""
    path = BUILT_IN.get(use) or _registered().get(use)
    if path is None:
        hint = did_you_mean(use, sorted({*BUILT_IN, *_registered()}))
        raise OptionMistakes([("use", f"there is no key service {quoted(use)}: {hint}")])
    module, _, name = path.partition(":")
    try:
        found: ServiceClass = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise OptionMistakes([("use", f"{quoted(use)} cannot be loaded: {error}")]) from None
    return found


def require(module: str, extra: str) -> Any:
    """Return a module of a library that only some key services need. Raises UsageError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f'{module} is not installed: pip install "kproxy-kafka[{extra}]"') from None


def _registered() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - 2 MB that few workers need

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}
