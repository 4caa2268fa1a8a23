"""Which key service to use, as plain values: ``with: keys:`` of the filter ``encrypt``, or the file of the option --keys."""

from typing import Annotated, Any

import msgspec

from kproxy.encryption.services.loading import service_class
from kproxy.options import OptionMistakes, Options, Seconds, read_options, text


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

    def options(self) -> msgspec.Struct:
        """Return the options of the key service, checked. Raises OptionMistakes."""
        class_ = service_class(self.use)
        try:
            return read_options(class_.Options, self.with_)
        except OptionMistakes as error:
            raise OptionMistakes(
                [(f"with.{path}" if path else "with", message) for path, message in error.problems]
            ) from None
