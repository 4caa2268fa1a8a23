"""Which key service to use, as plain values: ``with: keys:`` of the filter ``encrypt``, or the file of the option --keys."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Protocol, cast

import msgspec

from kproxy.encryption.services.contract import KeyDestroyed, KeyManager, KeyService, KeyServiceError
from kproxy.encryption.services.loading import service_class
from kproxy.errors import UsageError
from kproxy.options import OptionMistakes, Options, Problem, Seconds, read_options, text
from kproxy.secrets import SecretUnreadable, is_reference, read_secret


class ServiceOnThisMachine(KeyService, KeyManager, Protocol):
    """A key service whose class has ``is_on_this_machine``."""


class KeySettings(Options, frozen=True):
    """A key service and its options. A mistake in them is an OptionMistakes with its path."""

    use: Annotated[
        str, text('"file", "vault", "aws_kms", or the name of an entry point of the group kproxy.key_services.')
    ]
    with_: Annotated[dict[str, Any], text("The options of the key service.")] = msgspec.field(
        default_factory=dict, name="with"
    )
    timeout: Annotated[Seconds, text("How long one call of the key service may take.")] = 5.0

    def __post_init__(self) -> None:
        self.options()

    def problems_here(self) -> Iterator[Problem]:
        """Yield which secrets and libraries are missing, and whether a key set opens."""
        options = self.options()
        values = {name: getattr(options, name) for name in options.__struct_fields__}
        missing = [(f"with.{name}", why) for name, value in values.items() if (why := _unreadable(value)) is not None]
        yield from missing
        if missing:
            return
        try:
            service_class(self.use)(options)
        except UsageError as error:
            yield "with", str(error)
        if isinstance(options, Options):
            yield from ((f"with.{below}" if below else "with", why) for below, why in options.problems_here())

    def missing_keys(self, key_names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield which of the keys do not exist, each with a sentence, if that shows on this machine: no network is asked."""
        service = self._on_this_machine()
        if service is None:
            return
        for name in key_names:
            try:
                service.describe_key(name)
            except KeyDestroyed as error:
                yield name, f"{error}: kproxy keys FILE --make {name}, or name another one"

    def why_not_unwrapped(self, key_name: str, wrapped: bytes) -> str | None:
        """Return why a data key cannot be unwrapped; None if it can, or if that does not show on this machine."""
        service = self._on_this_machine()
        try:
            if service is not None:
                service.unwrap(key_name, wrapped)
        except KeyServiceError as error:
            return str(error)
        return None

    def _on_this_machine(self) -> ServiceOnThisMachine | None:
        """Return the key service; None if it has to be asked over a network, or does not open, which problems_here reports."""
        class_ = service_class(self.use)
        if not getattr(class_, "is_on_this_machine", False):
            return None
        service = cast(ServiceOnThisMachine, class_(self.options()))
        try:
            service.list_keys()
        except KeyServiceError:
            return None
        return service

    def options(self) -> msgspec.Struct:
        """Return the options of the key service, checked. Raises OptionMistakes."""
        class_ = service_class(self.use)
        try:
            return read_options(class_.Options, self.with_)
        except OptionMistakes as error:
            raise OptionMistakes(
                [(f"with.{path}" if path else "with", message) for path, message in error.problems]
            ) from None


def _unreadable(value: object) -> str | None:
    """Return why the secret that an option refers to cannot be read; None if it can, or there is none."""
    try:
        if isinstance(value, str) and is_reference(value):
            read_secret(value)
    except SecretUnreadable as error:
        return str(error)
    return None
