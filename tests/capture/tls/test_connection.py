"""Decryption against OpenSSL: what Python's ssl was given must come out, whatever the version, suite and handshake."""

import functools
import gc
import shutil
import ssl
import weakref
from collections.abc import Callable, Container
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kproxy.capture.tls import KeyLog, Plain
from kproxy.capture.tls import keylog as keylog_module
from kproxy.capture.tls.connection import TlsConnection
from kproxy.protocol import Direction
from tests.support.tls import BROKER, CLIENT, REQUEST, RESPONSE, Broker, Chunks, Heard, Pair, Setup, listen, log_of

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
BIG = bytes(range(256)) * 200  # more than three records
SUITES_12 = {
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-AES128-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "ECDHE-RSA-AES256-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    "AES128-GCM-SHA256": "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "AES256-SHA256": "TLS_RSA_WITH_AES_256_CBC_SHA256",
}


def talk(pair: Pair) -> Pair:
    pair.handshake()
    pair.send(REQUEST, b"hello broker")
    pair.send(RESPONSE, b"hello client")
    pair.send(REQUEST, BIG)
    pair.send(RESPONSE, BIG[::-1])
    return pair


def check(heard: Heard) -> None:
    assert heard.plain(REQUEST) == b"hello broker" + BIG
    assert heard.plain(RESPONSE) == b"hello client" + BIG[::-1]
    assert heard.problems == []
    assert heard.facts.decrypted
    assert heard.facts.missing == []


def test_tls13_comes_out_as_it_went_in() -> None:
    pair = talk(Pair())
    heard = listen(pair.chunks, pair.keylog)
    check(heard)
    facts = heard.facts
    assert facts.version == pair.client.version().replace("TLSv", "TLS ")  # type: ignore[union-attr]
    assert facts.cipher_suite == pair.client.cipher()[0]  # type: ignore[index]
    assert facts.server_name == "broker.test"
    assert facts.server_certificate == BROKER
    assert facts.client_certificate is None
    assert not facts.resumed
    assert facts.established_at is not None
    assert facts.requests.plain_size == len(b"hello broker" + BIG)


@pytest.mark.parametrize("openssl_name", SUITES_12)
@pytest.mark.parametrize("encrypt_then_mac", [True, False])
def test_tls12_comes_out_as_it_went_in(openssl_name: str, encrypt_then_mac: bool) -> None:
    pair = talk(Pair(Setup(TLS12, openssl_name, encrypt_then_mac=encrypt_then_mac)))
    assert pair.client.cipher()[0] == openssl_name  # type: ignore[index]
    heard = listen(pair.chunks, pair.keylog)
    check(heard)
    assert heard.facts.version == "TLS 1.2"
    assert heard.facts.cipher_suite == SUITES_12[openssl_name]
    assert heard.facts.server_certificate == BROKER
    assert heard.facts.established_at is not None


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_who_the_client_is_shows(version: ssl.TLSVersion) -> None:
    pair = talk(Pair(Setup(version, client_certificate=True, ask_certificate=True)))
    heard = listen(pair.chunks, pair.keylog)
    check(heard)
    assert heard.facts.client_certificate_requested
    assert heard.facts.client_certificate == CLIENT


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_a_client_that_was_asked_and_shows_nothing(version: ssl.TLSVersion) -> None:
    pair = talk(Pair(Setup(version, ask_certificate=True)))
    heard = listen(pair.chunks, pair.keylog)
    check(heard)
    assert heard.facts.client_certificate_requested
    assert heard.facts.client_certificate == ""


def test_a_certificate_asked_for_after_the_handshake() -> None:
    pair = Pair(Setup(client_certificate=True, ask_certificate_later=True)).handshake()
    pair.send(REQUEST, b"hello broker")
    assert listen(pair.chunks, pair.keylog).facts.client_certificate is None
    pair.ask_certificate()
    heard = listen(pair.chunks, pair.keylog)
    assert heard.facts.client_certificate == CLIENT
    assert heard.plain(REQUEST) == b"hello broker!"


@pytest.mark.parametrize("tickets", [True, False])
@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_a_resumed_session(version: ssl.TLSVersion, tickets: bool) -> None:
    first = talk(Pair(Setup(version, tickets=tickets)))
    second = talk(Pair(first.setup, before=first))
    assert second.client.session_reused
    heard = listen(second.chunks, second.keylog)
    check(heard)
    assert heard.facts.resumed
    assert heard.facts.server_certificate is None


@pytest.mark.parametrize("tickets", [True, False])
def test_a_resumed_session_of_tls12_needs_only_the_first_ones_secret(tickets: bool) -> None:
    first = talk(Pair(Setup(TLS12, tickets=tickets)))
    keylog = log_of(first.keylog)
    second = talk(Pair(first.setup, before=first))
    check(listen(first.chunks, keylog))
    check(listen(second.chunks, keylog))


def test_a_hello_that_has_to_be_said_twice() -> None:
    pair = talk(Pair(Setup(curve="secp384r1")))
    heard = listen(pair.chunks, pair.keylog)
    check(heard)
    assert heard.facts.hello_retry


def test_alpn() -> None:
    for version in (TLS12, TLS13):
        pair = talk(Pair(Setup(version, alpn=["kafka", "h2"])))
        facts = listen(pair.chunks, pair.keylog).facts
        assert facts.alpn == pair.client.selected_alpn_protocol() == "kafka"
        assert facts.offered_alpn == ["kafka", "h2"]


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_without_keys_only_the_outside_shows(version: ssl.TLSVersion) -> None:
    pair = talk(Pair(Setup(version)))
    heard = listen(pair.chunks, b"")
    facts = heard.facts
    assert heard.plain(REQUEST) == heard.plain(RESPONSE) == b""
    assert not facts.decrypted
    assert facts.version == {TLS12: "TLS 1.2", TLS13: "TLS 1.3"}[version]
    assert facts.server_name == "broker.test"
    assert facts.requests.wire_size == sum(len(data) for direction, data in pair.chunks if direction is REQUEST)
    assert facts.responses.wire_size == sum(len(data) for direction, data in pair.chunks if direction is RESPONSE)
    assert facts.requests.not_decrypted >= 5
    assert facts.renegotiations == 0
    assert facts.missing == ["no session keys of this connection are given"]


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_secrets_of_another_connection_and_wrong_ones_open_nothing(version: ssl.TLSVersion) -> None:
    pair = talk(Pair(Setup(version)))
    assert listen(pair.chunks, talk(Pair(Setup(version))).keylog).plain(REQUEST) == b""
    wrong = b"\n".join(
        b" ".join([*line.split()[:2], bytes(reversed(line.split()[2]))])
        for line in pair.keylog.splitlines()
        if not line.startswith(b"#")
    )
    heard = listen(pair.chunks, wrong)
    assert heard.plain(REQUEST) == heard.plain(RESPONSE) == b""
    assert all("is given and does not fit" in reason for reason in heard.facts.missing)
    assert heard.facts.missing
    check(listen(pair.chunks, wrong + b"\n" + pair.keylog))  # the right one beside the wrong one


def test_application_secrets_alone_are_enough() -> None:
    pair = talk(Pair())
    keylog = b"\n".join(line for line in pair.keylog.splitlines() if b"HANDSHAKE" not in line)
    heard = listen(pair.chunks, keylog)
    assert heard.plain(REQUEST) == b"hello broker" + BIG
    assert heard.plain(RESPONSE) == b"hello client" + BIG[::-1]
    assert heard.facts.server_certificate is None


def test_a_refused_handshake_says_who_refused_it() -> None:
    pair = Pair(Setup(TLS12, "ECDHE-RSA-AES128-SHA"))
    pair._broker_context.set_ciphers("ECDHE-RSA-AES256-SHA:@SECLEVEL=0")
    pair.broker = pair._broker_context.wrap_bio(pair._to_broker, pair._from_broker, server_side=True)
    with pytest.raises(ssl.SSLError):
        pair.handshake()
    pair._carry()
    heard = listen(pair.chunks, b"")
    assert heard.facts.alerts == ["broker: fatal handshake_failure"]
    assert heard.facts.version is None
    assert heard.facts.offered_versions == ["TLS 1.2"]


def rechunked(chunks: Chunks, cuts: list[int]) -> Chunks:
    """The same bytes cut elsewhere: by *cuts*, over and over; the order between the directions is kept."""
    out: Chunks = []
    turn = 0
    for direction, data in chunks:
        at = 0
        while at < len(data):
            size = cuts[turn % len(cuts)]
            out.append((direction, data[at : at + size]))
            at += size
            turn += 1
    return out


TALKS = {version: talk(Pair(Setup(version))) for version in (TLS12, TLS13)}


@pytest.mark.parametrize("version", [TLS12, TLS13])
@given(cuts=st.lists(st.integers(1, 20_000), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_chunking_changes_nothing(version: ssl.TLSVersion, cuts: list[int]) -> None:
    pair = TALKS[version]
    check(listen(rechunked(pair.chunks, cuts), pair.keylog))


def test_a_record_has_the_latest_time_of_its_bytes() -> None:
    """The first byte came last: its packet was overtaken by the others."""
    pair = talk(Pair(Setup(TLS13)))
    connection = TlsConnection(log_of(pair.keylog))
    seen = 0
    for direction, data in pair.chunks:
        items = connection.receive(direction, data[:1], 1_000) + connection.receive(direction, data[1:], 10)
        plain = [item.at for item in items if isinstance(item, Plain)]
        if plain and len(data) == 5 + int.from_bytes(data[3:5], "big"):
            assert plain == [1_000]
            seen += 1
    assert seen


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_one_byte_at_a_time(version: ssl.TLSVersion) -> None:
    pair = Pair(Setup(version)).handshake()
    pair.send(REQUEST, b"hello")
    assert listen(rechunked(pair.chunks, [1]), pair.keylog).plain(REQUEST) == b"hello"


@given(data=st.lists(st.tuples(st.sampled_from([REQUEST, RESPONSE]), st.binary(max_size=300)), max_size=10))
def test_any_bytes_give_items_and_no_exception(data: Chunks) -> None:
    listen(data, TALKS[TLS13].keylog)
    listen([(direction, b"\x16\x03\x01" + len(chunk).to_bytes(2, "big") + chunk) for direction, chunk in data], b"")


def damage(random: Random, connection: TlsConnection, chunks: Chunks) -> Heard:
    """Listen to chunks of which some are altered, missing, cut, doubled, of the other side, or made up."""
    heard = Heard(connection, [])
    for at, (sender, sent) in enumerate(chunks):
        direction, data = sender, sent
        what = random.choice(["alter", "lose", "cut", "double", "swap", "make up"] + ["leave"] * 24)
        if what == "alter":
            changed = bytearray(data)
            for _ in range(random.choice((1, 1, 3, 20))):
                changed[random.randrange(len(data))] = random.randrange(256)
            data = bytes(changed)
        elif what == "lose":
            heard.items += connection.gap(direction, random.choice((None, len(data), random.randrange(5000))), at)
            continue
        elif what == "cut":
            place = random.randrange(len(data) + 1)
            heard.items += connection.receive(direction, data[:place], at)
            heard.items += connection.gap(direction, len(data) - place, at)
            continue
        elif what == "double":
            data += data
        elif what == "swap":
            direction = REQUEST if direction is RESPONSE else RESPONSE
        elif what == "make up":
            data = random.randbytes(300)
        heard.items += connection.receive(direction, data, at)
    heard.items += connection.close(99)
    return heard


@pytest.mark.parametrize("number", range(5))
@given(seed=st.integers(0, 2**32), keys=st.booleans())
def test_damage_never_gives_anything_that_was_not_sent(number: int, seed: int, keys: bool) -> None:
    pair = gap_talk(GAP_SETUPS[number])
    heard = damage(Random(seed), TlsConnection(log_of(pair.keylog if keys else b"")), pair.chunks)
    for piece in heard.plain(REQUEST).split(b"[lost]"):
        assert piece in b"".join(NUMBERED)
    assert len(heard.problems) <= 16


def with_gap(chunks: Chunks, keylog: KeyLog, lost: Container[int], *, known: bool = True) -> Heard:
    """Listen to chunks without those of some numbers, which are told as gaps."""
    connection = TlsConnection(keylog)
    heard = Heard(connection, [])
    for at, (direction, data) in enumerate(chunks):
        if at in lost:
            heard.items += connection.gap(direction, len(data) if known else None, at)
        else:
            heard.items += connection.receive(direction, data, at)
    heard.items += connection.close(len(chunks))
    return heard


NUMBERED = [b"message %d " % number * (number % 7 + 1) for number in range(30)]
GAP_SETUPS = [
    Setup(),
    Setup(TLS12, "ECDHE-RSA-AES128-GCM-SHA256"),
    Setup(TLS12, "ECDHE-RSA-CHACHA20-POLY1305"),
    Setup(TLS12, "ECDHE-RSA-AES128-SHA256"),
    Setup(TLS12, "ECDHE-RSA-AES128-SHA256", encrypt_then_mac=False),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("setup", GAP_SETUPS, ids=lambda setup: f"{setup.version.name} {setup.ciphers}")
def test_after_lost_records_the_next_whole_one_is_read_again(setup: Setup, known: bool) -> None:
    pair = gap_talk(setup)
    start = len(pair.chunks) - len(NUMBERED)
    heard = with_gap(pair.chunks, log_of(pair.keylog), range(start + 3, start + 9), known=known)
    assert heard.plain(REQUEST) == b"".join(NUMBERED[:3]) + b"[lost]" + b"".join(NUMBERED[9:])
    assert heard.facts.requests.lost == 6
    assert len(heard.problems) == 6
    assert "bytes of TLS records are missing" in heard.problems[0]


@pytest.mark.parametrize("setup", GAP_SETUPS, ids=lambda setup: f"{setup.version.name} {setup.ciphers}")
def test_a_gap_within_a_record_costs_that_record(setup: Setup) -> None:
    pair = gap_talk(setup)
    start = len(pair.chunks) - len(NUMBERED)
    direction, hit = pair.chunks[start + 4]
    pieces = [(direction, hit[:9]), (direction, hit[9:15]), (direction, hit[15:])]
    chunks = pair.chunks[: start + 4] + pieces + pair.chunks[start + 5 :]
    heard = with_gap(chunks, log_of(pair.keylog), range(start + 5, start + 6))
    assert heard.plain(REQUEST) == b"".join(NUMBERED[:4]) + b"[lost]" + b"".join(NUMBERED[5:])
    assert heard.facts.requests.lost == 1


@pytest.mark.parametrize("setup", GAP_SETUPS, ids=lambda setup: f"{setup.version.name} {setup.ciphers}")
def test_what_looks_like_a_long_record_behind_a_gap_costs_nothing_else(setup: Setup) -> None:
    """Encrypted bytes contain a header now and then; whether the record is there shows only where no more bytes come."""
    pair = gap_talk(setup)
    start = len(pair.chunks) - len(NUMBERED)
    looks = (REQUEST, b"\x17\x03\x03\x40\x00" + bytes(20))
    chunks = [*pair.chunks[: start + 5], looks, *pair.chunks[start + 5 : start + 21], looks, *pair.chunks[start + 21 :]]
    heard = with_gap(chunks, log_of(pair.keylog), {start + 4, start + 21}, known=False)
    parts = NUMBERED[:4], NUMBERED[5:20], NUMBERED[21:]
    assert heard.plain(REQUEST) == b"[lost]".join(b"".join(part) for part in parts)
    assert heard.facts.requests.lost == 2


@pytest.mark.parametrize("setup", GAP_SETUPS, ids=lambda setup: f"{setup.version.name} {setup.ciphers}")
@given(first=st.integers(0, 4_000), size=st.integers(1, 2_000))
@settings(max_examples=10, deadline=None)
def test_a_gap_anywhere_costs_the_records_it_touches(setup: Setup, first: int, size: int) -> None:
    pair = gap_talk(setup)
    start = pair.chunks[: len(pair.chunks) - len(NUMBERED)]
    stream = b"".join(data for _, data in pair.chunks[len(start) :])
    first, end = min(first, len(stream) - 1), min(first + size, len(stream))
    cut = [*start, (REQUEST, stream[:first]), (REQUEST, stream[first:end]), (REQUEST, stream[end:])]
    heard = with_gap(cut, log_of(pair.keylog), range(len(start) + 1, len(start) + 2))
    ends = [0]
    for _, data in pair.chunks[len(start) :]:
        ends.append(ends[-1] + len(data))
    whole = [NUMBERED[i] if ends[i + 1] <= first else None for i in range(30)]
    whole = [NUMBERED[i] if ends[i] >= end else whole[i] for i in range(30)]
    before = b"".join(message for message in whole[: whole.index(None)] if message is not None)
    after = b"".join(message for message in whole[whole.index(None) :] if message is not None)
    assume(before or after)  # where nothing is left to decrypt, nothing says that the keys fit
    assert heard.plain(REQUEST) == before + b"[lost]" + after


@functools.cache
def gap_talk_of(number: int) -> Pair:
    pair = Pair(GAP_SETUPS[number]).handshake()
    for message in NUMBERED:
        pair.send(REQUEST, message)
    return pair


def gap_talk(setup: Setup) -> Pair:
    return gap_talk_of(GAP_SETUPS.index(setup))


def test_without_the_hello_of_the_broker_tls13_is_read_all_the_same() -> None:
    pair = TALKS[TLS13]
    heard = listen([chunk for chunk in pair.chunks if chunk[0] is REQUEST], pair.keylog)
    assert heard.plain(REQUEST) == b"hello broker" + BIG
    assert heard.facts.version is None


def test_without_the_hello_of_the_broker_tls12_says_what_is_missing() -> None:
    pair = TALKS[TLS12]
    heard = listen([chunk for chunk in pair.chunks if chunk[0] is REQUEST], pair.keylog)
    assert heard.plain(REQUEST) == b""
    assert heard.facts.missing == ["the ServerHello is not in the capture"]


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_without_the_clients_side_the_right_secret_shows_itself(version: ssl.TLSVersion) -> None:
    pair = TALKS[version]
    chunks = [chunk for chunk in pair.chunks if chunk[0] is RESPONSE]
    others = [talk(Pair(Setup(version))).keylog for _ in range(3)]
    heard = listen(chunks, b"".join([*others, pair.keylog]))
    assert heard.plain(RESPONSE) == b"hello client" + BIG[::-1]
    without = listen(chunks, b"".join(others))
    assert without.plain(RESPONSE) == b""
    assert without.facts.missing == ["the ClientHello is not in the capture"]


def test_looking_for_the_right_secret_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = TALKS[TLS13]
    chunks = [chunk for chunk in pair.chunks if chunk[0] is RESPONSE]
    monkeypatch.setattr(keylog_module, "MOST_SEARCHED", 3)
    log = log_of(pair.keylog)
    assert listen(chunks, log).facts.decrypted
    assert not listen(chunks, log).facts.decrypted


def test_secrets_are_in_no_text() -> None:
    pair = TALKS[TLS13]
    keylog = log_of(pair.keylog)
    heard = listen(pair.chunks, keylog)
    secrets = [line.split()[2].decode() for line in pair.keylog.splitlines() if not line.startswith(b"#")]
    said = repr(keylog) + repr(heard.items) + repr(heard.connection) + repr(vars(heard.connection))
    for secret in secrets:
        assert secret not in said
        assert repr(bytes.fromhex(secret))[2:-1] not in said


def test_no_keys_are_no_reason_to_look_for_records() -> None:
    assert TlsConnection(KeyLog()).close(0) == [TlsConnection(KeyLog()).facts]


def test_what_is_closed_goes_without_the_garbage_collector() -> None:
    pair = TALKS[TLS13]
    heard = listen(pair.chunks, pair.keylog)
    gone = weakref.ref(heard.connection._handshake)
    gc.disable()
    try:
        del heard
        assert gone() is None
    finally:
        gc.enable()


def states(connection: TlsConnection, direction: Direction) -> tuple[str, str]:
    half = connection._half(direction)
    keys = half.epochs.current
    return "searching" if half.buffer.searching else "in step", "clear" if keys is None else keys.name


def walk(
    chunks: Chunks, keylog: KeyLog, *, gap: tuple[int, int | None] | None = None
) -> dict[Direction, list[tuple[str, str]]]:
    """The states of both directions after each chunk; *gap* is the number of a chunk that is missing, and the size told."""
    connection = TlsConnection(keylog)
    seen = {direction: [states(connection, direction)] for direction in Direction}
    for number, (direction, data) in enumerate(chunks):
        if gap is not None and gap[0] == number:
            connection.gap(direction, gap[1], number)
        else:
            connection.receive(direction, data, number)
        for each, found in seen.items():
            if found[-1] != states(connection, each):
                found.append(states(connection, each))
    return seen


def test_walk_of_the_keys() -> None:
    pair = talk(Pair())
    found = walk(rechunked(pair.chunks, [50]), log_of(pair.keylog))
    assert found[RESPONSE] == [("in step", "clear"), ("in step", "handshake"), ("in step", "application data")]
    assert found[REQUEST] == [("in step", "clear"), ("in step", "application data")]  # its first record is Finished
    pair = talk(Pair(Setup(TLS12)))
    for found in walk(rechunked(pair.chunks, [50]), log_of(pair.keylog)).values():
        assert found == [("in step", "clear"), ("in step", "application data")]


@pytest.mark.parametrize("keys", [True, False])
def test_walk_of_the_search_for_records(keys: bool) -> None:
    pair = talk(Pair())
    last = max(number for number, (direction, _) in enumerate(pair.chunks) if direction == REQUEST)
    pair.send(REQUEST, b"after the gap")
    pair.send(REQUEST, b"and on")
    found = walk(pair.chunks, log_of(pair.keylog if keys else b""), gap=(last, None))[REQUEST]
    steps = [step for step, _ in found]
    assert steps[steps.index("searching") :] == ["searching", "in step"]
    assert found[-1][1] == ("application data" if keys else "clear")


def test_walk_bytes_that_are_no_record_begin_a_search() -> None:
    connection = TlsConnection(KeyLog())
    assert states(connection, REQUEST) == ("in step", "clear")
    connection.receive(REQUEST, b"GET / HTTP/1.1\r\n", 0)
    assert states(connection, REQUEST) == ("searching", "clear")
    assert states(connection, RESPONSE) == ("in step", "clear")


def test_no_damage_leads_back_to_the_clear() -> None:
    for seed in range(40):
        random = Random(seed)
        pair = gap_talk_of(seed % 3)
        chunks = [
            (direction, bytes(byte ^ (random.random() < 0.001) for byte in data)) for direction, data in pair.chunks
        ]
        for found in walk(chunks, log_of(pair.keylog)).values():
            in_clear = [keys == "clear" for _, keys in found]
            assert in_clear == sorted(in_clear, reverse=True)


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


def test_the_time_of_data_is_that_of_the_chunk_which_completed_its_record() -> None:
    pair = Pair().handshake()
    pair.send(REQUEST, b"hello")
    direction, data = pair.chunks.pop()
    at = len(pair.chunks)
    heard = listen([*pair.chunks, (direction, data[:7]), (direction, data[7:])], pair.keylog)
    (plain,) = [item for item in heard.items if isinstance(item, Plain)]
    assert (plain.direction, plain.at, plain.data) == (REQUEST, at + 1, b"hello")
