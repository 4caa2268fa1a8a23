"""Events of a decode to a capture again: decrypted, and with pseudonyms if asked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kproxy.capture import Closed, Ended
from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.rewriting.anonymize import Anonymizer
from kproxy.output.rewriting.pseudonyms import Pseudonyms
from kproxy.output.rewriting.rewriter import Rewriter
from kproxy.pipeline.line_output import Output
from kproxy.pipeline.pcapng_output import PcapngOutput
from kproxy.pipeline.sink import Sink
from kproxy.pipeline.time_order import TimeOrder
from kproxy.session import Event

LEAST_KEY, MOST_KEY = 16, 4096  # bytes


class CaptureAgain:
    """Output as a capture; nothing is written before all is read, as packets stand in the order of their times."""

    def __init__(self, pcapng: PcapngOutput) -> None:
        self._pcapng = pcapng

    def begin(self, file: Path) -> None:
        """See Output: the captures become one."""

    def take(self, event: Event, bodies: Bodies | None, *, shown: bool) -> None:
        """See Output."""
        if shown:
            self._pcapng.take(event, bodies)

    def ended(self, number: int, item: Ended | Closed) -> None:
        """See Output: the connections of the capture end in their own way."""


@contextmanager
def capture_again(sink: Sink, rewriter: Rewriter) -> Iterator[Output]:
    """Write a capture to *sink* when the block ends well."""
    with TimeOrder() as order:
        pcapng = PcapngOutput(sink, order, rewriter)
        yield CaptureAgain(pcapng)
        pcapng.finish()


def rewriter(*, anonymize: bool, key_file: Path | None) -> Rewriter:
    """What frames are changed by: credentials are withheld, and with *anonymize* there are pseudonyms. Raises UsageError."""
    return anonymizer(key_file) if anonymize else Rewriter()


def anonymizer(key_file: Path | None) -> Anonymizer:
    """Pseudonyms by the key in the file, or by one made now. Raises UsageError for a file that holds none."""
    if key_file is None:
        return Anonymizer(Pseudonyms(os.urandom(LEAST_KEY)))
    try:
        with key_file.open("rb") as file:
            key = file.read(MOST_KEY)
    except OSError as error:
        raise UsageError(f"{key_file} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY:
        raise UsageError(f"{key_file} has {len(key)} bytes; a key has at least {LEAST_KEY}")
    return Anonymizer(Pseudonyms(key))
