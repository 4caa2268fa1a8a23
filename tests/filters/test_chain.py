"""Which frames a chain wants, in which order filters meet them, and what their faults cost whom."""

import asyncio
import json
import logging
from collections.abc import Awaitable
from struct import pack
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kproxy.filters.chain import CONFIDENTIAL, Chain, name_of
from kproxy.filters.contract import (
    Answer,
    Close,
    ConnectionFacts,
    Direction,
    Filter,
    Forward,
    Outcome,
    Replace,
    Reply,
    RequestFacts,
    Send,
    Want,
)
from kproxy.filters.narrow_api_versions import NarrowApiVersions
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.filters.tail import withheld_tail
from kproxy.protocol import Versions, facts
from kproxy.protocol.facts import Field
from kproxy.protocol.secrets import Secrecy, secrecy
from tests.support.filtering import BrokerClient, Served, connection, make, request_frame, responded, response_frame
from tests.support.frames import api_versions_refusal, frame, heartbeat, heartbeat_answer, request

HEARTBEAT = 12
REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


def forward(_: object) -> Forward:
    return Forward()


def asked(chain: Chain, frame: bytes, at: ConnectionFacts | None = None) -> Outcome:
    outcome = chain.on_request(at or connection(), frame)
    assert not isinstance(outcome, Awaitable)
    return outcome


def test_what_is_wanted() -> None:
    chain = Chain(
        [BrokerClient(forward, requests=(3,), versions=Versions.parse("2-4")), BrokerClient(forward, responses=(10,))]
    )
    assert chain.wanted(REQUEST, 3, 2) is Want.HOLD
    assert chain.wanted(REQUEST, 3, 5) is Want.PASS
    assert chain.wanted(RESPONSE, 10, 0) is Want.HOLD
    assert chain.wanted(RESPONSE, 3, 2) is Want.PASS
    assert chain.filters[0].requests == (3,)  # and no NarrowApiVersions, as none is required


def test_the_tables_say_the_same_for_all_that_the_facts_know() -> None:
    chain = Chain([RewriteAddresses(), BrokerClient(forward, responses=(0, 3))])
    for direction in Direction:
        table = chain.table(direction)
        assert all(want is chain.wanted(direction, *pair) for pair, want in table.items())
        assert {key for key, _ in table} == set(facts().apis)
    table = chain.table(RESPONSE)
    assert table[1, 17] is Want.TAIL
    assert table[0, 11] is Want.HOLD  # what one filter wants whole is not cut through for another
    assert table[3, 0] is Want.HOLD
    assert table[1, 15] is Want.PASS
    assert table[18, 3] is Want.HOLD  # to be narrowed


def test_attack_13_what_the_facts_lack_passes_unless_a_required_filter_asks() -> None:
    free = Chain([BrokerClient(forward, requests=(3, 999), responses=(3,))])
    for direction in Direction:
        assert [free.unknown(direction, key) for key in (3, 12, 18, 999)] == [Want.PASS] * 4
    strict = Chain([BrokerClient(forward, responses=(3, 999), required=True)])
    assert strict.unknown(RESPONSE, 3) is strict.unknown(REQUEST, 3) is strict.unknown(REQUEST, 999) is Want.REFUSE
    assert strict.unknown(RESPONSE, 12) is Want.PASS
    assert strict.wanted(RESPONSE, 3, 14) is strict.wanted(RESPONSE, 3, -1) is Want.REFUSE
    assert (strict.unknown(REQUEST, 18), strict.unknown(RESPONSE, 18)) == (Want.PASS, Want.HOLD)
    bounded = Chain([BrokerClient(forward, responses=(3,), required=True, versions=Versions.parse("0-5"))])
    assert bounded.unknown(RESPONSE, 3) is Want.PASS


def test_attack_13_frames_that_nobody_knows() -> None:
    future, unheard_of = request(3, 999, 1, b"?"), request(9_999, 0, 1, b"?")
    free = Chain([BrokerClient(forward, requests=(3,))])
    assert asked(free, future) == Send(future)
    assert asked(free, unheard_of) == Send(unheard_of)
    answer = response_frame(3, 999, b"?")
    assert responded(free, connection(), 3, 999, answer) == Send(answer)
    strict = Chain([BrokerClient(forward, requests=(3,), required=True)])
    assert asked(strict, future) == Close("api_key 3 at version 999: a required filter cannot read it")
    assert asked(strict, unheard_of) == Send(unheard_of)
    assert responded(strict, connection(), 3, 999, answer) == Close(
        "api_key 3 at version 999: a required filter cannot read it"
    )


def test_api_versions_of_an_unknown_version_is_the_brokers_to_refuse_and_else_ours() -> None:
    chain = Chain([RewriteAddresses()])
    asked_for = request(18, 99, 7, b"?", tags=b"\0")
    assert asked(chain, asked_for) == Send(asked_for)
    refusal = api_versions_refusal(7)
    outcome = responded(chain, connection(), 18, 99, refusal)
    assert isinstance(outcome, Send)
    assert outcome.frame is refusal
    ours = refusal.replace(pack(">hhh", 18, 0, 2), pack(">hhh", 18, 0, 4))
    for offer in (b"something new", refusal[8:].replace(pack(">h", 35), pack(">h", 0), 1), b""):
        assert responded(chain, connection(), 18, 99, frame(pack(">i", 7) + offer)) == Send(ours)
    assert responded(Chain([]), connection(), 18, 99, frame(b"1234?")) == Send(frame(b"1234?"))


def test_a_request_too_short_for_a_header_closes() -> None:
    assert asked(Chain([]), b"\0\0\0\2\0\3") == Close("a request of 6 bytes has no header")


def test_what_nobody_wants_is_not_looked_at() -> None:
    frame = request(HEARTBEAT, 0, 1, b"no heartbeat")
    outcome = asked(Chain([BrokerClient(forward, requests=(3,))]), frame)
    assert isinstance(outcome, Send)
    assert outcome.frame is frame


def test_requests_go_first_to_last_and_responses_last_to_first() -> None:
    said: list[str] = []

    def named(name: str) -> BrokerClient:
        def judge(_: object) -> Forward:
            said.append(name)
            return Forward()

        return BrokerClient(judge, requests=(HEARTBEAT,), responses=(HEARTBEAT,))

    chain = Chain([named("a"), named("b"), named("c")])
    assert asked(chain, heartbeat(1)) == Send(heartbeat(1))
    assert responded(chain, connection(), HEARTBEAT, 0, heartbeat_answer(1)) == Send(heartbeat_answer(1))
    assert said == ["a", "b", "c", "c", "b", "a"]


def test_attack_22_a_frame_too_big_to_be_held() -> None:
    observer = BrokerClient(forward, responses=(1,), fails_open=True, name="observer")
    policy = BrokerClient(forward, responses=(1,), name="policy")
    assert Chain([observer]).when_too_large_to_hold(RESPONSE, 1, 18) is Want.PASS
    assert Chain([RewriteAddresses(), observer]).when_too_large_to_hold(RESPONSE, 1, 18) is Want.TAIL
    assert Chain([RewriteAddresses(), observer]).when_too_large_to_hold(RESPONSE, 1, 4) is Want.PASS
    refusing = Chain([RewriteAddresses(), observer, policy])
    assert refusing.when_too_large_to_hold(RESPONSE, 1, 18) is Want.REFUSE
    assert refusing.faults == {"observer": 1, "policy": 1}
    assert Chain([RewriteAddresses()]).when_too_large_to_hold(RESPONSE, 10, 2) is Want.REFUSE


def test_filters_are_told_of_what_they_wanted_and_is_too_big_to_be_held() -> None:
    told: list[tuple[object, ...]] = []

    class Counting(BrokerClient):
        def on_too_large(self, *frame: object) -> None:
            told.append(frame)
            raise RuntimeError("canary")

    chain = Chain(
        [Counting(forward, responses=(1,), name="a"), Counting(forward, requests=(1,), name="b"), RewriteAddresses()]
    )
    at = connection()
    chain.note_too_large(at, RESPONSE, 1, 18, 5_000)
    assert told == [(at, RESPONSE, 1, 18, 5_000)]
    assert chain.faults == {"a": 1}


def test_an_api_that_a_filter_refuses() -> None:
    chain = Chain([BrokerClient(forward, requests=(3,), refuses=(58,))])
    assert chain.wanted(Direction.REQUEST, 58, 0) is Want.REFUSE
    assert chain.narrows
    assert isinstance(chain.on_request(connection(), request(58, 0, 1, b"")), Close)
    assert Chain([BrokerClient(forward, requests=(3,))]).wanted(Direction.REQUEST, 58, 0) is Want.PASS


def test_a_response_too_big_to_be_held_is_rewritten_in_part_where_that_is_enough() -> None:
    observer = BrokerClient(forward, responses=(3, 55), fails_open=True, name="observer")
    policy = BrokerClient(forward, responses=(3, 55), name="policy")
    watched = Chain([RewriteAddresses(), observer])
    assert watched.wanted(RESPONSE, 3, 9) is Want.HOLD
    assert watched.when_too_large_to_hold(RESPONSE, 3, 9) is Want.HEAD
    assert watched.when_too_large_to_hold(RESPONSE, 55, 2) is Want.TAIL
    assert watched.faults == {"observer": 2}
    assert Chain([RewriteAddresses()]).when_too_large_to_hold(RESPONSE, 55, 2) is Want.TAIL
    assert Chain([RewriteAddresses(), policy]).when_too_large_to_hold(RESPONSE, 3, 9) is Want.REFUSE


class Ending(Filter):
    """Wants ends, and does with them what it is told."""

    def __init__(self, said: Any, **attributes: Any) -> None:
        self.said = said
        for name, value in attributes.items():
            setattr(self, name, value)

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        return Want.TAIL if (direction, api_key) == (RESPONSE, 1) else Want.PASS

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said  # type: ignore[no-any-return]

    def on_close(self, connection: ConnectionFacts) -> None:
        if isinstance(self.said, Exception):
            raise self.said


TAIL = b"\1\x05\3abc"


@pytest.mark.parametrize("said", [ValueError("x"), b"", TAIL + b"\0", None, bytearray(TAIL)])
def test_a_fault_at_an_end(said: Any) -> None:
    asked_about = RequestFacts(1, 16, 7)
    closed = Chain([Ending(said)])
    assert closed.on_tail(connection(), asked_about, TAIL) == withheld_tail(1, 16, len(TAIL))
    assert closed.faults == {"Ending": 1}
    opened = Chain([Ending(said, fails_open=True)])
    assert opened.on_tail(connection(), asked_about, TAIL) == TAIL
    assert opened.faults == {"Ending": 1}


def test_ends_go_last_to_first_past_filters_that_hold() -> None:
    first, last = Ending(b"\1\x05\3xyz"), Ending(b"\1\x05\3abd")
    chain = Chain([first, BrokerClient(forward, responses=(1,)), last])
    assert chain.on_tail(connection(), RequestFacts(1, 16, 7), TAIL) == b"\1\x05\3xyz"
    assert chain.tail_start(1, 16) is None
    assert chain.tail_start(78, 0) == "nodeEndpoints"


def test_every_filter_hears_of_the_end_of_a_connection() -> None:
    closed: list[int] = []

    class Last(Filter):
        def on_close(self, connection: ConnectionFacts) -> None:
            closed.append(connection.number)

    chain = Chain([Ending(RuntimeError("at the end")), Last()])
    chain.on_close(connection())
    assert closed == [1]
    assert chain.faults == {"Ending": 1}


def test_what_an_exception_says_of_a_credential_or_a_record_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def judge(request: Any) -> Forward:
        raise KeyError(request.message.auth_bytes)

    chain = Chain([BrokerClient(judge, requests=(36,), fails_open=True)])
    with caplog.at_level(logging.WARNING, "kproxy.filters"):
        asked(chain, request_frame("SaslAuthenticateRequest", 2, make("SaslAuthenticateRequest", auth_bytes=b"canary")))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "canary" not in line
    assert "KeyError(" in line and "test_chain.py:" in line


def test_every_message_with_credentials_or_records_is_confidential() -> None:
    def withheld(name: str, fields: tuple[Field, ...], path: tuple[str, ...] = ()) -> bool:
        return any(
            field.type == "records"
            or secrecy(name, (*path, field.json_name)) not in (Secrecy.OPEN, Secrecy.MARKS_THE_VALUE)
            or withheld(name, field.fields, (*path, field.json_name))
            for field in fields
        )

    found = {
        key
        for key, api in facts().apis.items()
        for name in (f"{api.name}Request", f"{api.name}Response")
        for layout in facts().layouts(name)
        if withheld(name, layout.fields)
    }
    assert found == CONFIDENTIAL


def test_faults_are_logged_on_one_line_the_first_tenth_hundredth_time(caplog: pytest.LogCaptureFixture) -> None:
    def judge(request: Any) -> Forward:
        raise ValueError("group\n\x1b[31m" + request.message.group_id * 1_000)

    chain = Chain([BrokerClient(judge, requests=(HEARTBEAT,), name="careless", fails_open=True)])
    with caplog.at_level(logging.WARNING, "kproxy.filters"):
        for _ in range(100):
            asked(chain, heartbeat(1))
    lines = [record.getMessage() for record in caplog.records]
    assert [line[line.rindex("(") :] for line in lines] == ["(fault 1)", "(fault 10)", "(fault 100)"]
    assert chain.faults == {"careless": 100}
    assert all(line.isprintable() and len(line) < 600 for line in lines)
    assert "careless" in lines[0]
    assert "test_chain.py:" in lines[0]


def test_names() -> None:
    assert name_of(RewriteAddresses()) == "rewrite_addresses"
    assert name_of(BrokerClient(forward)) == "BrokerClient"


def test_narrowing_comes_first_so_that_it_has_the_last_word_on_responses() -> None:
    chain = Chain([RewriteAddresses(), BrokerClient(forward)])
    assert isinstance(chain.filters[0], NarrowApiVersions)
    assert chain.narrows


# Promise 19: a fault at every hook, sync or not; observers cost nothing, policies close.


def raises(_: object) -> Any:
    raise RuntimeError("at every hook")


async def raises_later(_: object) -> Any:
    await asyncio.sleep(0)
    raise RuntimeError("later")


async def never(_: object) -> Any:
    await asyncio.Event().wait()


async def wrong_later(_: object) -> Any:
    return "Forward"


FAULTS = {
    "raises": raises,
    "raises later": raises_later,
    "never says": never,
    "says nothing": lambda _: None,
    "says a word": lambda _: "Forward",
    "says a word later": wrong_later,
    "says a class": lambda _: Forward,
    "replaces by nothing": lambda _: Replace(None),  # type: ignore[arg-type]
    "replaces by another message": lambda _: Replace(make("MetadataRequest")),
    "replaces by what cannot be written": lambda at: Replace(make(type(at.message).__name__, **bad_values(at))),
    "replaces by a frame past the cap": lambda at: Replace(make(type(at.message).__name__, **big_values(at))),
    "replies to a response or with another message": lambda _: Reply(make("MetadataResponse")),
}


KINDS = {"raises": "raised", "raises later": "raised", "never says": "timed_out"}  # the others are unusable


def bad_values(at: Any) -> dict[str, Any]:
    return {"error_code": 1 << 20} if hasattr(at.message, "error_code") else {"group_id": None}


def big_values(at: Any) -> dict[str, Any]:
    many = ((3, bytes(300)),)
    return {"unknown_tags": many} | ({} if hasattr(at.message, "error_code") else {"group_id": "g"})


HEARTBEAT_4 = request_frame("HeartbeatRequest", 4, make("HeartbeatRequest", group_id="g", member_id="m"))
ANSWER_4 = response_frame(HEARTBEAT, 4, pack(">ihx", 0, 0))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("fails_open", [True, False])
def test_attack_22_faults_at_every_hook(fault: str, direction: Direction, fails_open: bool) -> None:
    async def go() -> None:
        faulty = BrokerClient(
            FAULTS[fault],
            requests=(HEARTBEAT,),
            responses=(HEARTBEAT,),
            fails_open=fails_open,
            name="faulty",
            timeout=0.01,
        )
        sound = BrokerClient(forward, requests=(HEARTBEAT,), responses=(HEARTBEAT,), name="sound")
        filters = [faulty, sound] if direction is REQUEST else [sound, faulty]
        told: list[tuple[str, str, str]] = []
        chain = Chain(filters, wait=asyncio.wait_for, most_frame_size=200, on_fault=lambda *fault: told.append(fault))
        for times in range(1, 6):
            frame = HEARTBEAT_4 if direction is REQUEST else ANSWER_4
            at = connection()
            given = chain.on_request(at, frame) if direction is REQUEST else chain.on_response(
                at, RequestFacts(HEARTBEAT, 4, 7), frame
            )  # fmt: skip
            outcome = await given if isinstance(given, Awaitable) else given
            refused = response_frame(HEARTBEAT, 4, pack(">ihb", 0, -1, 0))  # UNKNOWN_SERVER_ERROR
            answer = Answer(refused) if direction is REQUEST else Send(refused)
            assert outcome == (Send(frame) if fails_open else answer)
            assert chain.faults == {"faulty": times}
            hook = "on_request" if direction is REQUEST else "on_response"
            assert told == [("faulty", hook, KINDS.get(fault, "unusable"))] * times
        assert len(sound.seen) == (5 if fails_open or direction is not REQUEST else 0)

    asyncio.run(go())


@pytest.mark.parametrize("fails_open", [True, False])
def test_a_frame_that_cannot_be_decoded_is_a_fault(fails_open: bool) -> None:
    chain = Chain([BrokerClient(forward, requests=(HEARTBEAT,), fails_open=fails_open, name="reader")])
    for damaged in (heartbeat(1)[:-1], heartbeat(1)[:-2], heartbeat(1)[:13]):
        outcome = asked(chain, damaged)
        assert outcome == (Send(damaged) if fails_open else Close("filter reader failed"))
    assert chain.faults == {"reader": 3}


def test_the_bytes_of_frames_of_many_kinds_are_those_that_came() -> None:
    """Observers that want everything change nothing in what Kafka itself wrote."""
    from tests.support.corpus import golden_lines  # noqa: PLC0415 - 1 MB, for one test

    everything = range(100)
    chain = Chain([BrokerClient(forward, requests=everything, responses=everything, fails_open=True)])
    again = Chain(
        [BrokerClient(lambda at: Replace(at.message), requests=everything, responses=everything)],
        held_frame_size=1 << 45,  # so that no Fetch asks for too much
    )
    count = 0
    for line in golden_lines("frames"):
        frame = bytes.fromhex(line["frameHex"])
        if line["direction"] == "request":
            same, written = asked(chain, frame), asked(again, frame)
        else:
            same = responded(chain, connection(Served()), line["apiKey"], line["version"], frame)
            written = responded(again, connection(Served()), line["apiKey"], line["version"], frame)
        assert isinstance(same, Send)
        assert same.frame is frame, json.dumps(line)[:300]
        assert written == Send(frame)
        count += 1
    assert count > 1_400
    assert not chain.faults
    assert not again.faults


def test_kproxys_own_filters_do_not_make_a_chain_fail_closed() -> None:
    assert not Chain([RewriteAddresses()]).fails_closed
    assert Chain([RewriteAddresses(), BrokerClient(forward)]).fails_closed
    assert Chain([BrokerClient(forward, required=True)]).fails_closed
    observing = BrokerClient(forward)
    observing.fails_open = True
    assert not Chain([observing, RewriteAddresses()]).fails_closed


def test_a_filter_that_wants_other_frames_is_asked_again() -> None:
    changing = BrokerClient(forward)
    changing.requests = ()
    chain = Chain([changing])
    assert chain.filters_for(Direction.REQUEST, 0, 9) == ()
    changing.requests = (0,)
    chain.forget_wants()
    assert chain.filters_for(Direction.REQUEST, 0, 9) == (changing,)


@hypothesis.given(st.integers(0, 95), st.integers(-2, 20), st.binary(max_size=60), st.booleans())
def test_any_bytes_are_forwarded_or_close_and_nothing_is_raised(
    key: int, version: int, noise: bytes, is_open: bool
) -> None:
    everything = range(100)
    observer = BrokerClient(forward, requests=everything, responses=everything, fails_open=True)
    chain = Chain([RewriteAddresses(), observer]) if not is_open else Chain([observer])
    at = connection(Served())
    given = frame(pack(">hh", key, version) + noise)
    outcome = asked(chain, given, at)
    assert isinstance(outcome, Close) or outcome.frame == given
    if is_open and len(given) >= 12:
        assert isinstance(outcome, Send)
    answer = frame(noise)
    outcome = responded(chain, at, key, version, answer)
    assert isinstance(outcome, Close | Send)
    assert not is_open or isinstance(outcome, Send)


def test_the_time_of_a_filter_is_from_its_call_to_its_verdict() -> None:
    """By a clock that only the filters move: at once, later, and when they fail."""
    now = 0

    def takes(nanoseconds: int) -> None:
        nonlocal now
        now += nanoseconds

    def at_once(_: object) -> Forward:
        takes(500)
        return Forward()

    async def later(_: object) -> Forward:
        takes(70)
        return Forward()

    def fails(_: object) -> Forward:
        takes(9)
        raise ValueError("no")

    filters = [
        BrokerClient(at_once, requests=(HEARTBEAT,), responses=(HEARTBEAT,), name="at once"),
        BrokerClient(fails, requests=(HEARTBEAT,), name="fails", fails_open=True),
        BrokerClient(later, requests=(HEARTBEAT,), name="later"),
    ]
    chain = Chain(filters, clock=lambda: now)

    async def go() -> None:
        outcome = chain.on_request(connection(), heartbeat(1))
        assert isinstance(outcome, Awaitable)
        takes(1_000)  # of the loop, before it comes to what is later
        assert isinstance(await outcome, Send)

    asyncio.run(go())
    chain.on_response(connection(), RequestFacts(HEARTBEAT, 0, 1), heartbeat_answer(1))
    assert chain.take_times() == {"at once": [1_000, 2], "fails": [9, 1], "later": [70, 1]}
    assert chain.take_times() == {}
