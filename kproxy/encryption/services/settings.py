"""Which key service to use, as plain values: ``with: keys:`` of the filter ``encrypt``, or the file of the option --keys."""

from collections.abc import Iterator
from typing import Annotated, Any, Protocol, cast

import msgspec
from msgspec import structs

from kproxy.encryption.services.contract import KeyManager, KeyService
from kproxy.encryption.services.loading import service_class
from kproxy.errors import UsageError
from kproxy.options import OptionMistakes, Options, Problem, Seconds, read_options, text
from kproxy.secrets import SecretUnreadable, is_reference, read_secret

FILE = "file:"  # before the name of a file with a secret


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
        """Yield which secrets and libraries are missing, and what its options say."""
        yield from (missing := list(self._missing()))
        options = self.options()
        if not missing and isinstance(options, Options):
            yield from ((f"with.{below}" if below else "with", why) for below, why in options.problems_here())

    def on_this_machine(self) -> ServiceOnThisMachine | None:
        """Return the key service; None if it has to be asked over a network, or if ``problems_here`` says what is missing."""
        class_ = service_class(self.use)
        if not getattr(class_, "is_on_this_machine", False) or any(self._missing()):
            return None
        return cast(ServiceOnThisMachine, class_(self.options()))

    def _missing(self) -> Iterator[Problem]:
        options = self.options()
        values = {name: getattr(options, name) for name in options.__struct_fields__}
        missing = [(f"with.{name}", why) for name, value in values.items() if (why := _unreadable(value)) is not None]
        yield from missing
        try:
            if not missing:
                service_class(self.use)(options)
        except UsageError as error:
            yield "with", str(error)

    def absolute(self) -> "KeySettings":
        """Return the same, with names of files that another process can open, wherever it was started."""
        files = getattr(service_class(self.use).Options, "files", ())
        found = {name: _absolute(value, name in files) for name, value in self.with_.items()}
        return structs.replace(self, with_=found)

    def options(self) -> msgspec.Struct:
        """Return the options of the key service, checked. Raises OptionMistakes."""
        class_ = service_class(self.use)
        try:
            return read_options(class_.Options, self.with_)
        except OptionMistakes as error:
            raise OptionMistakes(
                [(f"with.{path}" if path else "with", message) for path, message in error.problems]
            ) from None


def _absolute(value: Any, is_file: bool) -> Any:
    from pathlib import Path  # noqa: PLC0415 - a worker does without

    if not isinstance(value, str):
        return value
    if value.startswith(FILE):
        return f"{FILE}{Path(value.removeprefix(FILE)).absolute()}"
    return str(Path(value).absolute()) if is_file else value


def _unreadable(value: object) -> str | None:
    """Return why the secret that an option refers to cannot be read; None if it can, or there is none."""
    try:
        if isinstance(value, str) and is_reference(value):
            read_secret(value)
    except SecretUnreadable as error:
        return str(error)
    return None
