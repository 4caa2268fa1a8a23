"""Handshakes that only OpenSSL's own programs can make: key updates, early data, renegotiation."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.capture.tls.connection import TlsConnection
from tests.support.openssl import Broker
from tests.support.tls import REQUEST, RESPONSE, listen, log_of

Require = Callable[[str, object, str], None]


@pytest.fixture(autouse=True)
def openssl(require: Require) -> None:
    require("openssl", shutil.which("openssl"), "the program openssl is not there")


def test_key_updates_of_both_sides(tmp_path: Path) -> None:
    keylog = tmp_path / "keys"
    with Broker("-tls1_3") as broker:
        client = broker.connect(keylog)
        client.say(b"before\n")
        broker.program.wait_for(b"before")
        client.say(b"k\n", b"KEYUPDATE")  # a key update of the client's own
        client.say(b"between\n")
        broker.program.wait_for(b"between")
        client.say(b"K\n", b"KEYUPDATE")  # one that asks the broker for its own
        client.say(b"after\n")
        broker.program.wait_for(b"after")
        broker.program.say(b"answer\n")
        client.wait_for(b"answer")
        client.close()
    heard = listen(broker.connections[0], keylog.read_bytes())
    assert heard.plain(REQUEST) == b"before\nbetween\nafter\n"
    assert heard.plain(RESPONSE) == b"answer\n"
    assert heard.facts.key_updates == 3


def test_a_key_update_that_is_lost(tmp_path: Path) -> None:
    keylog = tmp_path / "keys"
    with Broker("-tls1_3") as broker:
        client = broker.connect(keylog)
        client.say(b"before\n")
        broker.program.wait_for(b"before")
        chunks = broker.connections[0]
        lost = sum(direction is REQUEST for direction, _ in chunks)  # the next one
        client.say(b"k\n", b"KEYUPDATE")
        client.say(b"after\n")
        broker.program.wait_for(b"after")
        client.say(b"end\n")
        broker.program.wait_for(b"end")
        client.close()
    requests = [data for direction, data in chunks if direction is REQUEST]
    update, rest = requests[lost][:27], requests[lost][27:]
    assert update[:5].hex() == "1703030016"  # a message of 5 bytes, its type, a tag of 16
    responses = [chunk for chunk in chunks if chunk[0] is RESPONSE]
    connection = TlsConnection(log_of(keylog.read_bytes()))
    items = connection.receive(REQUEST, requests[0], 0)
    for direction, data in responses:
        items += connection.receive(direction, data, 1)
    for data in requests[1:lost]:
        items += connection.receive(REQUEST, data, 2)
    items += connection.gap(REQUEST, len(update), 3)
    for data in [rest, *requests[lost + 1 :]]:
        items += connection.receive(REQUEST, data, 4)
    assert connection.facts.requests.lost == 1
    plain = [item.data if hasattr(item, "data") else type(item).__name__ for item in items]
    assert [what for what in plain if what not in ("TlsFacts", "TlsProblem")] == [
        b"before\n",
        "Lost",
        b"after\n",
        b"end\n",
    ]


def early_talk(tmp_path: Path, *, accepted: bool) -> tuple[Broker, Path]:
    """Two connections; the second begins with early data, which the broker accepts or not."""
    keylog, session, early = tmp_path / "keys", tmp_path / "session", tmp_path / "early"
    early.write_bytes(b"early words\n")
    with Broker("-tls1_3", "-early_data", "-no_anti_replay" if accepted else "-anti_replay") as broker:
        client = broker.connect(keylog, "-sess_out", str(session))
        client.say(b"first\n")
        broker.program.wait_for(b"first")
        broker.program.say(b"ticket came\n")
        client.wait_for(b"ticket came")
        client.close()
        for _ in range(1 if accepted else 2):  # anti-replay: the same ticket again is no ground for early data
            client = broker.connect(keylog, "-sess_in", str(session), "-early_data", str(early))
            client.say(b"late words\n")
            broker.program.wait_for(b"late words")
            client.close()
    return broker, keylog


def test_early_data_that_the_broker_accepts(tmp_path: Path) -> None:
    broker, keylog = early_talk(tmp_path, accepted=True)
    heard = listen(broker.connections[1], keylog.read_bytes())
    assert heard.facts.early_data == "accepted"
    assert heard.facts.resumed
    assert heard.plain(REQUEST) == b"early words\nlate words\n"


def test_early_data_that_the_broker_accepts_and_nobody_can_read(tmp_path: Path) -> None:
    broker, keylog = early_talk(tmp_path, accepted=True)
    lines = [line for line in keylog.read_bytes().splitlines() if b"EARLY" not in line]
    heard = listen(broker.connections[1], b"\n".join(lines))
    assert heard.facts.early_data == "accepted"
    assert heard.plain(REQUEST) == b"[lost]late words\n"


def test_early_data_that_the_broker_rejects(tmp_path: Path) -> None:
    broker, keylog = early_talk(tmp_path, accepted=False)
    heard = listen(broker.connections[2], keylog.read_bytes())
    assert heard.facts.early_data == "rejected"
    assert heard.plain(REQUEST) == b"late words\n"


@pytest.mark.parametrize("with_keys", [True, False])
def test_renegotiation_of_tls12(tmp_path: Path, with_keys: bool) -> None:
    keylog = tmp_path / "keys"
    with Broker("-tls1_2", "-client_renegotiation") as broker:
        client = broker.connect(keylog, "-legacy_renegotiation")
        client.say(b"before\n")
        broker.program.wait_for(b"before")
        client.say(b"R\n", b"RENEGOTIATING")
        client.say(b"after\n")
        broker.program.wait_for(b"after")
        client.close()
    heard = listen(broker.connections[0], keylog.read_bytes() if with_keys else b"")
    assert heard.facts.renegotiations >= 1
    if with_keys:
        assert heard.facts.renegotiations == 1
        assert heard.plain(REQUEST) == b"before\nafter\n"
