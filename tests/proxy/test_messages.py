"""What goes over the channel and comes back."""

import msgspec
import pytest

from kproxy.config import Cluster, Config
from kproxy.proxy.channel import LONGEST_LINE
from kproxy.proxy.messages import (
    AnalyzerCounts,
    Configure,
    Failed,
    LogEvent,
    OutputCounts,
    ToAnalyzer,
    ToSupervisor,
    ToWorker,
)
from tests.support.stand_in_worker import connection

CONFIG = Config(clusters=[Cluster(name="one", listen="127.0.0.1:1", bootstrap=["b:1"])], workers=3)


@pytest.mark.parametrize("receiver", [ToWorker, ToAnalyzer])
def test_a_configuration_comes_back(receiver: object) -> None:
    received = msgspec.json.decode(msgspec.json.encode(Configure.to(CONFIG)), type=receiver)
    assert isinstance(received, Configure)
    assert received.decode() == CONFIG


def test_a_configuration_of_another_version_is_an_error() -> None:
    with pytest.raises(msgspec.MsgspecError, match="clusters"):
        Configure(msgspec.Raw(b'{"clusters": 5}')).decode()


@pytest.mark.parametrize("why", ["x" * (2 << 20), "\0" * (2 << 20), "\udc80" * (2 << 20), "one sentence"])
def test_why_a_configuration_cannot_be_used_fits_the_channel(why: str) -> None:
    """A message that is dropped would leave the supervisor waiting for the answer."""
    message = Failed.because(ValueError(why))
    encoded = msgspec.json.encode(message)
    assert len(encoded) < LONGEST_LINE
    assert msgspec.json.decode(encoded, type=ToSupervisor) == message
    assert message.why.startswith(why[:1].encode(errors="backslashreplace").decode())


@pytest.mark.parametrize(
    "message",
    [
        LogEvent(
            "info", "an event", {"count": 1, "seconds": 0.5, "reason": "x", "listen": ["a", 1, None], "file": None}
        ),
        AnalyzerCounts(at=1, errors=[("Fetch", "NONE", 2)], outputs={"log": OutputCounts(1, 2, 3)}, faults={"E": 1}),
    ],
    ids=["log", "counts"],
)
def test_what_children_send_comes_back(message: LogEvent | AnalyzerCounts) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=ToSupervisor) == message


def test_a_connection_is_shown_with_its_worker_first() -> None:
    assert list(msgspec.to_builtins(connection(3, 7)))[:4] == ["worker", "number", "cluster", "client"]
