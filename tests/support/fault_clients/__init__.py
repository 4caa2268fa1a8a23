"""Programs with two clients, each of which says what errors it has read in the responses of an API, and what its program got.

Java        NetworkClient logs each response that it has decoded, with its error codes (FaultClient.java)
librdkafka  logs that a response has come, and behind it what it makes of it: an error with the text of rd_kafka_err2str
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

PATIENCE_S = 60  # in which a program reads its records
WORK = {  # API -> what a program does that makes the client send it
    "Produce": "produce",
    "Fetch": "fetch",
    "Metadata": "metadata",
    "FindCoordinator": "group",
    "JoinGroup": "group",
    "OffsetCommit": "commit",
    "InitProducerId": "transactions",
    "ApiVersions": "produce",
}
RECORDS = 3  # of the topic, each in a batch of its own; and the steps of a program


class Seen(NamedTuple):
    """What a client saw."""

    responses: list[frozenset[str]]  # of the API, in the order in which they came: the errors in each
    said: list[str | None]  # to the program, step by step: an error's name, None where there was none

    @property
    def failed(self) -> dict[int, frozenset[str]]:
        """The responses with errors, by their number from 1."""
        return {number: errors for number, errors in enumerate(self.responses, 1) if errors}


class FaultClient(Protocol):
    """A client library."""

    name: str

    def run(self, api: str, bootstrap: str, topic: str, client_id: str, settings: dict[str, str]) -> Seen:
        """Run the program that makes it use an API; settings are the library's own."""
        ...

    def close(self) -> None:
        """End what it has started."""
        ...


def names(codes: Sequence[int]) -> frozenset[str]:
    """The errors of these codes."""
    from kproxy.protocol.error_codes import ErrorCode  # noqa: PLC0415

    return frozenset(ErrorCode(code).name for code in codes if code)
