"""The tree of all exceptions that kproxy raises on purpose.

    KproxyError
    ├── ProtocolError             bytes or values that do not follow Kafka's protocol
    │   ├── DecodeError           the bytes cannot be read
    │   │   ├── Truncated         the bytes end too early
    │   │   ├── Malformed         a length, count, null or tag that no writer produces
    │   │   ├── TrailingBytes     bytes follow the end of the message
    │   │   └── UnknownVersion    no layout is known for that message at that version
    │   └── EncodeError           an object that cannot be written at that version
    ├── CaptureError              a capture file that cannot be read further; says where
    ├── OutputClosed              the reader of the output (a pipe) has closed it; nothing more can be written
    ├── ProxyProtocolError        a connection that does not begin with the PROXY header expected of it
    ├── NoRoom                the temporary directory is full, or cannot be written
    ├── UpstreamError             a broker that cannot be reached: one sentence with its address
    └── UsageError                bad input from a person: one sentence with its position
        ├── Unanswerable          an analysis that meets a value out of range; names the analysis
        ├── OptionError           an option of a run that is wrong; begins with the option's name
        └── ConfigError           a configuration with mistakes: all of them, each with its position

Any other exception from a public function is a bug.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple


class KproxyError(Exception):
    """Root of the tree."""


class ProtocolError(KproxyError):
    """Bytes or values that do not follow Kafka's protocol."""


class DecodeError(ProtocolError):
    """The bytes of a message cannot be read.

    Args:
        reason: what is wrong, as a clause ("needs 8 bytes, 3 left").
        message: Kafka's name of the message ("FetchResponse"); None if unknown.
        version: its api_version; None if unknown.
        path: the field ("responses[0].partitions[2].highWatermark"), "" for the message itself.
        position: in bytes, counted from the start of the message.
        needed, left: bytes (or elements) that were needed, and bytes that were left; None if this does not apply.
    """

    def __init__(
        self,
        reason: str,
        *,
        message: str | None = None,
        version: int | None = None,
        path: str = "",
        position: int = 0,
        needed: int | None = None,
        left: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message
        self.version = version
        self.path = path
        self.position = position
        self.needed = needed
        self.left = left

    def __str__(self) -> str:
        name = self.message or "message"
        version = "" if self.version is None else f" v{self.version}"
        path = f": {self.path}" if self.path else ""
        return f"{name}{version}{path}: {self.reason} (at byte {self.position})"


class Truncated(DecodeError):
    """The bytes end before the message does."""


class Malformed(DecodeError):
    """A length, count, null or tag that no writer of the protocol produces."""


class TrailingBytes(DecodeError):
    """Bytes are left over after the message."""


class UnknownVersion(DecodeError):
    """No layout is known for the message at that version."""


class EncodeError(ProtocolError):
    """An object that cannot be written at a version; the text names message, version and field path."""


class CaptureError(KproxyError):
    """A capture file that cannot be read further; the text says at which byte and why."""


class OutputClosed(KproxyError):
    """The other end of the pipe that the output goes to is closed (``| head``). No fault: stop, and exit with 0."""


class ProxyProtocolError(KproxyError):
    """A connection that does not begin with a PROXY protocol header, or with a wrong one; the text says what is wrong with it."""


class NoRoom(KproxyError):
    """The temporary directory is full, or cannot be written; one sentence with its path, the cause, and what to do."""


class UpstreamError(KproxyError):
    """A broker, or the proxy on the way to it, that cannot be reached; one sentence with its address and the cause."""


class UsageError(KproxyError):
    """Bad input from a person; the text is one sentence that says where and what to do instead."""


class Unanswerable(UsageError):
    """An analysis, or a view, that meets a value out of range, such as a sum; the text names it."""


class OptionError(UsageError):
    """An option of a run (pipeline.run.Options) that is wrong; the text begins with its name, to which the CLI adds ``--``."""


class Mistake(NamedTuple):
    """One thing wrong in a configuration: where (counted from 1; 0: not in a file), at which path, and what to do."""

    line: int
    column: int
    path: str  # "clusters[0].listen", or an option: "--listen"
    message: str


class ConfigError(UsageError):
    """A configuration that cannot be run; ``mistakes`` holds everything wrong with it, in the order of the file.

    Args:
        mistakes: at least one.
        source: name of the file; "" for options of the command line.
    """

    def __init__(self, mistakes: Sequence[Mistake], source: str = "") -> None:
        super().__init__(source)
        self.mistakes = list(mistakes)
        self.source = source

    def lines(self) -> list[str]:
        """Return one line for each mistake: ``file:line:column: path: what is wrong``."""
        return [self._line(mistake) for mistake in self.mistakes]

    def _line(self, mistake: Mistake) -> str:
        place = f"{self.source}:{mistake.line}:{mistake.column}" if mistake.line else self.source
        return ": ".join(part for part in (place, mistake.path, mistake.message) if part)

    def __str__(self) -> str:
        return "\n".join(self.lines())


class LoginRefused(KproxyError):
    """A login of kproxy's own at a broker failed; the text says why.

    Attributes:
        advice: what to do.
    """

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.advice = advice


FEW = 12  # names that a sentence may list


def did_you_mean(name: str, known: Iterable[str], where: str = "") -> str:
    """Return "did you mean a or b?" for a name that is not known.

    If no known name is close: all of them if they are few, else *where* they are listed.
    """
    names = list(known)
    close = close_names(name, names)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are {', '.join(names)}" if len(names) <= FEW or not where else where


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three of the *known* names for which *name* may be a misspelling, the closest first."""
    import difflib  # noqa: PLC0415 - needed for mistakes only

    lowered = {one.lower(): one for one in known}
    wanted = name[:100].lower()
    close = [wanted] if wanted in lowered else difflib.get_close_matches(wanted, lowered, 3, 0.6)
    close = close or [one for one in lowered if len(wanted) > 2 and wanted in one][:3]
    return [lowered[one] for one in close]


def meant_names(unknown: Iterable[str], known: Iterable[str], missing: Collection[str]) -> set[str]:
    """Return the *missing* ones of the *known* names that an *unknown* name is probably a misspelling of, one for each."""
    names = list(known)
    meant: set[str] = set()
    for name in unknown:
        meant.update([one for one in close_names(name, names) if one in missing and one not in meant][:1])
    return meant
