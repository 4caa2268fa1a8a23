"""Which frames a chain wants, in which order filters meet them, what replaces and answers them, and what faults cost whom."""

import asyncio
import json
import logging
from collections.abc import Awaitable
from struct import pack
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kproxy.filters.addresses import withheld_tail
from kproxy.filters.chain import CONFIDENTIAL, Chain
from kproxy.filters.contract import (
    Answer,
    Close,
    ConnectionFacts,
    Cut,
    Direction,
    Filter,
    Forward,
    Outcome,
    Replace,
    Reply,
    Request,
    RequestFacts,
    Send,
    Truncate,
    Want,
)
from kproxy.filters.narrow_api_versions import NarrowApiVersions
from kproxy.filters.passage import LARGE
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import Message, Versions, facts, message
from kproxy.protocol.facts import Field
from kproxy.protocol.secrets import Secrecy, secrecy
from tests.support.filtering import Scripted, Served, connection, ours, responded
from tests.support.frames import (
    api_versions_answer,
    api_versions_refusal,
    frame,
    heartbeat,
    heartbeat_answer,
    produce,
    request,
)
from tests.support.messages import make, request_frame, response_frame

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
        [Scripted(forward, requests=(3,), versions=Versions.parse("2-4")), Scripted(forward, responses=(10,))]
    )
    assert chain.wanted(REQUEST, 3, 2) is Want.HOLD
    assert chain.wanted(REQUEST, 3, 5) is Want.PASS
    assert chain.wanted(RESPONSE, 10, 0) is Want.HOLD
    assert chain.wanted(RESPONSE, 3, 2) is Want.PASS
    assert chain.filters[0].requests == (3,)  # and no NarrowApiVersions, as none is required


def test_the_tables_say_the_same_for_all_that_the_facts_know() -> None:
    chain = Chain([RewriteAddresses(), Scripted(forward, responses=(0, 3))])
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
    free = Chain([Scripted(forward, requests=(3, 999), responses=(3,))])
    for direction in Direction:
        assert [free.unknown(direction, key) for key in (3, 12, 18, 999)] == [Want.PASS] * 4
    strict = Chain([Scripted(forward, responses=(3, 999), required=True)])
    assert strict.unknown(RESPONSE, 3) is strict.unknown(REQUEST, 3) is strict.unknown(REQUEST, 999) is Want.REFUSE
    assert strict.unknown(RESPONSE, 12) is Want.PASS
    assert strict.wanted(RESPONSE, 3, 14) is strict.wanted(RESPONSE, 3, -1) is Want.REFUSE
    assert (strict.unknown(REQUEST, 18), strict.unknown(RESPONSE, 18)) == (Want.PASS, Want.HOLD)
    bounded = Chain([Scripted(forward, responses=(3,), required=True, versions=Versions.parse("0-5"))])
    assert bounded.unknown(RESPONSE, 3) is Want.PASS


def test_attack_13_frames_that_nobody_knows() -> None:
    future, unheard_of = request(3, 999, 1, b"?"), request(9_999, 0, 1, b"?")
    free = Chain([Scripted(forward, requests=(3,))])
    assert asked(free, future) == Send(future)
    assert asked(free, unheard_of) == Send(unheard_of)
    answer = response_frame(3, 999, b"?")
    assert responded(free, connection(), 3, 999, answer) == Send(answer)
    strict = Chain([Scripted(forward, requests=(3,), required=True)])
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
    outcome = asked(Chain([Scripted(forward, requests=(3,))]), frame)
    assert isinstance(outcome, Send)
    assert outcome.frame is frame


def test_requests_go_first_to_last_and_responses_last_to_first() -> None:
    said: list[str] = []

    def named(name: str) -> Scripted:
        def judge(_: object) -> Forward:
            said.append(name)
            return Forward()

        return Scripted(judge, requests=(HEARTBEAT,), responses=(HEARTBEAT,))

    chain = Chain([named("a"), named("b"), named("c")])
    assert asked(chain, heartbeat(1)) == Send(heartbeat(1))
    assert responded(chain, connection(), HEARTBEAT, 0, heartbeat_answer(1)) == Send(heartbeat_answer(1))
    assert said == ["a", "b", "c", "c", "b", "a"]


def test_attack_22_a_frame_too_big_to_be_held() -> None:
    observer = Scripted(forward, responses=(1,), fails_open=True, name="observer")
    policy = Scripted(forward, responses=(1,), name="policy")
    assert Chain([observer]).when_too_large_to_hold(RESPONSE, 1, 18) is Want.PASS
    assert Chain([RewriteAddresses(), observer]).when_too_large_to_hold(RESPONSE, 1, 18) is Want.TAIL
    assert Chain([RewriteAddresses(), observer]).when_too_large_to_hold(RESPONSE, 1, 4) is Want.PASS
    refusing = Chain([RewriteAddresses(), observer, policy])
    assert refusing.when_too_large_to_hold(RESPONSE, 1, 18) is Want.REFUSE
    assert refusing.faults == {"observer": 1, "policy": 1}
    assert Chain([RewriteAddresses()]).when_too_large_to_hold(RESPONSE, 10, 2) is Want.REFUSE


def test_filters_are_told_of_what_they_wanted_and_is_too_big_to_be_held() -> None:
    told: list[tuple[object, ...]] = []

    class Counting(Scripted):
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
    chain = Chain([Scripted(forward, requests=(3,), refuses=(58,))])
    assert chain.wanted(Direction.REQUEST, 58, 0) is Want.REFUSE
    assert chain.narrows
    assert isinstance(chain.on_request(connection(), request(58, 0, 1, b"")), Close)
    assert Chain([Scripted(forward, requests=(3,))]).wanted(Direction.REQUEST, 58, 0) is Want.PASS


def test_a_response_too_big_to_be_held_is_rewritten_in_part_where_that_is_enough() -> None:
    observer = Scripted(forward, responses=(3, 55), fails_open=True, name="observer")
    policy = Scripted(forward, responses=(3, 55), name="policy")
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
    chain = Chain([first, Scripted(forward, responses=(1,)), last])
    assert chain.on_tail(connection(), RequestFacts(1, 16, 7), TAIL) == b"\1\x05\3xyz"


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

    chain = Chain([Scripted(judge, requests=(36,), fails_open=True)])
    with caplog.at_level(logging.WARNING, "kproxy.filters"):
        asked(chain, request_frame("SaslAuthenticateRequest", 2, auth_bytes=b"canary"))
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

    chain = Chain([Scripted(judge, requests=(HEARTBEAT,), name="careless", fails_open=True)])
    with caplog.at_level(logging.WARNING, "kproxy.filters"):
        for _ in range(100):
            asked(chain, heartbeat(1))
    lines = [record.getMessage() for record in caplog.records]
    assert [line[line.rindex("(") :] for line in lines] == ["(fault 1)", "(fault 10)", "(fault 100)"]
    assert chain.faults == {"careless": 100}
    assert all(line.isprintable() and len(line) < 600 for line in lines)
    assert "careless" in lines[0]
    assert "test_chain.py:" in lines[0]


def test_narrowing_comes_first_so_that_it_has_the_last_word_on_responses() -> None:
    chain = Chain([RewriteAddresses(), Scripted(forward)])
    assert isinstance(chain.filters[0], NarrowApiVersions)
    assert chain.narrows


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


HEARTBEAT_4 = request_frame("HeartbeatRequest", 4, group_id="g", member_id="m")
ANSWER_4 = response_frame(HEARTBEAT, 4, pack(">ihx", 0, 0))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("fails_open", [True, False])
def test_attack_22_faults_at_every_hook(fault: str, direction: Direction, fails_open: bool) -> None:
    async def go() -> None:
        faulty = Scripted(
            FAULTS[fault],
            requests=(HEARTBEAT,),
            responses=(HEARTBEAT,),
            fails_open=fails_open,
            name="faulty",
            timeout=0.01,
        )
        sound = Scripted(forward, requests=(HEARTBEAT,), responses=(HEARTBEAT,), name="sound")
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
    chain = Chain([Scripted(forward, requests=(HEARTBEAT,), fails_open=fails_open, name="reader")])
    for damaged in (heartbeat(1)[:-1], heartbeat(1)[:-2], heartbeat(1)[:13]):
        outcome = asked(chain, damaged)
        assert outcome == (Send(damaged) if fails_open else Close("filter reader failed"))
    assert chain.faults == {"reader": 3}


def test_the_bytes_of_frames_of_many_kinds_are_those_that_came() -> None:
    """Observers that want everything change nothing in what Kafka itself wrote."""
    from tests.support.corpus import golden_lines  # noqa: PLC0415 - 1 MB, for one test

    everything = range(100)
    chain = Chain([Scripted(forward, requests=everything, responses=everything, fails_open=True)])
    again = Chain(
        [Scripted(lambda at: Replace(at.message), requests=everything, responses=everything)],
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
    assert Chain([RewriteAddresses(), Scripted(forward)]).fails_closed
    assert Chain([Scripted(forward, required=True)]).fails_closed
    observing = Scripted(forward)
    observing.fails_open = True
    assert not Chain([observing, RewriteAddresses()]).fails_closed


def test_a_filter_that_wants_other_frames_is_asked_again() -> None:
    changing = Scripted(forward)
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
    observer = Scripted(forward, requests=everything, responses=everything, fails_open=True)
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
        Scripted(at_once, requests=(HEARTBEAT,), responses=(HEARTBEAT,), name="at once"),
        Scripted(fails, requests=(HEARTBEAT,), name="fails", fails_open=True),
        Scripted(later, requests=(HEARTBEAT,), name="later"),
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


METADATA = 3
BOTH: dict[str, Any] = {"requests": (HEARTBEAT,), "responses": (HEARTBEAT,)}


def renamed(group: str) -> Any:
    """A judge that gives the request another group."""

    def judge(at: Any) -> Replace:
        at.message.group_id = group
        return Replace(at.message)

    return judge


def test_what_a_filter_is_shown() -> None:
    filter_ = Scripted(forward, **BOTH)
    chain = Chain([filter_])
    at = connection()
    chain.on_request(at, heartbeat(5, "payments", client_id="checkout"))
    chain.on_response(at, RequestFacts(HEARTBEAT, 0, 5), heartbeat_answer(5, 27))
    (_, request), (_, response) = filter_.seen
    assert (request.connection, request.api_key, request.api_version, request.correlation_id) == (at, HEARTBEAT, 0, 5)
    assert (request.client_id, request.message.group_id, request.message.member_id) == ("checkout", "payments", "m-1")
    assert (response.connection, response.message.error_code) == (at, 27)


def test_a_replaced_request_keeps_its_header_and_is_what_the_next_filter_sees() -> None:
    second = Scripted(forward, **BOTH)
    outcome = asked(Chain([Scripted(renamed("longer-than-before"), **BOTH), second]), heartbeat(5, "g"))
    assert outcome == Send(heartbeat(5, "longer-than-before"))
    assert second.seen[0][1].message.group_id == "longer-than-before"


def test_unknown_tags_survive_a_replacement_in_header_and_body() -> None:
    tags = b"\1\x09\3abc"
    body = b"\2g\0\0\0\1\2m\0" + b"\1\x0a\2xy"
    renamed_body = body.replace(b"\2g", b"\3hh")
    head = pack(">hhih", HEARTBEAT, 4, 7, -1) + tags
    chain = Chain([Scripted(renamed("hh"), **BOTH)])
    assert asked(chain, frame(head + body)) == Send(frame(head + renamed_body))
    answer = frame(pack(">i", 7) + tags + pack(">ih", 0, 27) + b"\1\x0b\1z")

    def calm(at: Any) -> Replace:
        at.message.error_code = 0
        return Replace(at.message)

    outcome = responded(Chain([Scripted(calm, **BOTH)]), connection(), HEARTBEAT, 4, answer)
    assert outcome == Send(answer.replace(pack(">ih", 0, 27), pack(">ih", 0, 0)))


def test_attack_22_another_correlation_id_or_version_is_not_listened_to() -> None:
    def judge(at: Any) -> Replace:
        at.correlation_id, at.api_version, at.api_key, at.client_id = 999, 4, 3, "me"
        return Replace(at.message)

    assert asked(Chain([Scripted(judge, **BOTH)]), heartbeat(5)) == Send(heartbeat(5))


@pytest.mark.parametrize("says", [Forward(), None], ids=["forward", "replace"])
def test_attack_22_what_a_filter_writes_into_the_facts_of_a_request_is_not_listened_to(says: Forward | None) -> None:
    def judge(held: Any) -> Forward | Replace:
        held.request.correlation_id, held.request.api_key, held.request.api_version = 6_000, 18, 0
        return says or Replace(held.message)

    seen = Scripted(forward, responses=(HEARTBEAT,))
    chain = Chain([seen, Scripted(judge, responses=(HEARTBEAT,))])
    facts = RequestFacts(HEARTBEAT, 0, 5)
    assert chain.on_response(connection(), facts, heartbeat_answer(5, 27)) == Send(heartbeat_answer(5, 27))
    assert seen.seen[0][1].request == facts == RequestFacts(HEARTBEAT, 0, 5)


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_filter_changes_without_saying_so_no_other_sees(fails: bool) -> None:
    def careless(at: Any) -> Forward:
        at.message.group_id = "changed"
        if fails:
            raise RuntimeError("half way")
        return Forward()

    second = Scripted(renamed("g2"), **BOTH)
    third = Scripted(forward, **BOTH)
    chain = Chain(
        [Scripted(careless, fails_open=True, **BOTH), second, Scripted(careless, fails_open=True, **BOTH), third]
    )
    assert asked(chain, heartbeat(5, "g")) == Send(heartbeat(5, "g2"))
    assert third.seen[0][1].message.group_id == "g2"


def test_a_frame_is_decoded_once_for_one_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    decode = Message.decode
    monkeypatch.setattr(Message, "decode", lambda self, *args: decoded.append(self.name) or decode(self, *args))
    asked(Chain([Scripted(forward, requests=(HEARTBEAT,))]), heartbeat(5))
    assert decoded == ["HeartbeatRequest"]
    asked(
        Chain([Scripted(renamed("a"), requests=(HEARTBEAT,)), Scripted(renamed("b"), requests=(HEARTBEAT,))]),
        heartbeat(5),
    )
    assert decoded == ["HeartbeatRequest"] * 2


def test_after_a_verdict_that_ends_it_no_filter_is_asked() -> None:
    last = Scripted(forward, **BOTH)
    assert asked(Chain([Scripted(lambda _: Close("no"), **BOTH), last]), heartbeat(5)) == Close("no")
    assert last.seen == []


def test_the_request_is_kept_for_filters_that_want_both_as_it_went_to_the_broker() -> None:
    both = Scripted(forward, **BOTH)
    outcome = asked(Chain([both, Scripted(renamed("g2"), requests=(HEARTBEAT,))]), heartbeat(5, "g"))
    assert isinstance(outcome, Send)
    assert outcome.request == RequestFacts(
        HEARTBEAT, 0, 5, "app", make("HeartbeatRequest", group_id="g2", generation_id=5, member_id="m-1")
    )
    apart = Chain([Scripted(forward, requests=(HEARTBEAT,)), Scripted(forward, responses=(HEARTBEAT,))])
    outcome = asked(apart, heartbeat(5, "g"))
    assert isinstance(outcome, Send)
    assert outcome.request == RequestFacts(HEARTBEAT, 0, 5, "app")


def refuse(request: Any) -> Reply:
    return Reply(request.new_response(error_code=25))


@pytest.mark.parametrize("version", range(5))
def test_a_reply_at_every_version(version: int) -> None:
    request = request_frame("HeartbeatRequest", version, correlation_id=9)
    outcome = asked(Chain([Scripted(refuse, requests=(HEARTBEAT,))]), request)
    throttle = b"" if version == 0 else pack(">i", 0)
    tags = b"\0" if version == 4 else b""
    assert outcome == Answer(frame(pack(">i", 9) + tags + throttle + pack(">h", 25) + tags))


def test_a_reply_meets_the_filters_its_request_has_passed_and_no_other() -> None:
    first, last = Scripted(forward, **BOTH), Scripted(forward, **BOTH)
    chain = Chain([first, Scripted(refuse, **BOTH), last])
    assert asked(chain, heartbeat(5)) == Answer(heartbeat_answer(5, 25))
    assert [direction for direction, _ in first.seen] == [Direction.REQUEST, Direction.RESPONSE]
    assert last.seen == []


def test_a_reply_leaks_no_address_either() -> None:
    def cached(request: Any) -> Reply:
        return Reply(make("MetadataResponse", brokers=[{"node_id": 3, "host": "real", "port": 9092}]))

    chain = Chain([RewriteAddresses(), Scripted(cached, requests=(3,))])
    request = request_frame("MetadataRequest", 1, topics=None)
    outcome = chain.on_request(connection(Served()), request)
    assert isinstance(outcome, Answer)
    value: Any = message("MetadataResponse").decode(1, outcome.frame, 8)
    assert [(broker.host, broker.port) for broker in value.brokers] == [ours(3)]


def test_a_reply_that_a_filter_before_refuses_closes() -> None:
    def judge(at: Any) -> Any:
        return Close("not that answer") if hasattr(at, "request") else Forward()

    chain = Chain([Scripted(judge, **BOTH), Scripted(refuse, **BOTH)])
    assert asked(chain, heartbeat(5)) == Close("not that answer")


def test_a_produce_that_wants_no_answer_gets_none() -> None:
    def empty(request: Any) -> Reply:
        return Reply(request.new_response())

    chain = Chain([Scripted(empty, requests=(0,))])
    assert asked(chain, produce(5, 0)) == Answer(b"")
    assert asked(chain, produce(5, 1)) == Answer(frame(pack(">iii", 5, 0, 0)))


def test_a_response_is_not_replied_to() -> None:
    chain = Chain([Scripted(lambda at: Reply(at.message), **BOTH, name="replying")])
    outcome = responded(chain, connection(), HEARTBEAT, 0, heartbeat_answer(5))
    assert outcome == Send(heartbeat_answer(7, -1))


def test_attack_13_api_versions_in_another_layout_pass_unseen() -> None:
    filter_ = Scripted(lambda at: Replace(at.message), responses=(18,))
    chain = Chain([filter_])
    for odd in (api_versions_refusal(7), frame(pack(">i", 7) + b"nothing anybody reads")):
        outcome = responded(chain, connection(), 18, 3, odd)
        assert isinstance(outcome, Send)
        assert outcome.frame is odd
    assert filter_.seen == []
    assert responded(chain, connection(), 18, 3, api_versions_answer(7)) == Send(api_versions_answer(7))
    assert len(filter_.seen) == 1
    longer = frame(api_versions_answer(7)[4:] + b"\0\0")
    assert responded(chain, connection(), 18, 3, longer) == Send(longer)
    assert len(filter_.seen) == 2
    assert not chain.faults


def test_waiting_filters_keep_their_order_and_others_go_on_after_them() -> None:
    said: list[str] = []

    def waiting(name: str, group: str) -> Any:
        async def judge(at: Any) -> Any:
            said.append(f"{name} sees {at.message.group_id}")
            await asyncio.sleep(0)
            said.append(f"{name} is done")
            at.message.group_id = group
            return Replace(at.message)

        return judge

    async def go() -> None:
        chain = Chain(
            [
                Scripted(waiting("a", "g1"), **BOTH),
                Scripted(renamed("g2"), **BOTH),
                Scripted(waiting("b", "g3"), **BOTH),
            ],
            wait=asyncio.wait_for,
        )
        outcome = chain.on_request(connection(), heartbeat(5, "g"))
        assert isinstance(outcome, Awaitable)
        assert said == []
        assert await outcome == Send(heartbeat(5, "g3"))
        assert said == ["a sees g", "a is done", "b sees g2", "b is done"]

    asyncio.run(go())


def test_a_reply_waits_for_the_filters_before_it() -> None:
    async def judge(at: Any) -> Forward:
        await asyncio.sleep(0)
        return Forward()

    async def go() -> None:
        chain = Chain([Scripted(judge, responses=(HEARTBEAT,)), Scripted(refuse, requests=(HEARTBEAT,))])
        outcome = chain.on_request(connection(), heartbeat(5))
        assert isinstance(outcome, Awaitable)
        assert await outcome == Answer(heartbeat_answer(5, 25))

    asyncio.run(go())


def test_attack_22_a_filter_that_hangs_is_given_its_time_and_told(caplog: pytest.LogCaptureFixture) -> None:
    cancelled: list[str] = []

    async def hang(_: object) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise

    async def go(fails_open: bool) -> tuple[Outcome, Chain]:
        slow = Scripted(hang, requests=(HEARTBEAT,), fails_open=fails_open, timeout=0.01, name="slow")
        chain = Chain([slow, Scripted(renamed("g2"), requests=(HEARTBEAT,))], wait=asyncio.wait_for)
        outcome = chain.on_request(connection(), heartbeat(5))
        assert isinstance(outcome, Awaitable)
        return await outcome, chain

    assert asyncio.run(go(False))[0] == Answer(heartbeat_answer(5, -1))
    outcome, chain = asyncio.run(go(True))
    assert outcome == Send(heartbeat(5, "g2"))
    assert chain.faults == {"slow": 1}
    assert cancelled == ["cancelled"] * 2
    assert "filter slow failed on a request of api_key 12, version 0: no verdict within 0.01 s" in caplog.text


def test_a_worker_that_gives_up_waiting_is_no_fault_of_the_filter() -> None:
    """The connection is gone: its task is cancelled."""

    async def hang(_: object) -> Any:
        await asyncio.Event().wait()

    async def go() -> Chain:
        chain = Chain([Scripted(hang, responses=(HEARTBEAT,))], wait=asyncio.wait_for)
        outcome = chain.on_response(connection(), RequestFacts(HEARTBEAT, 0, 5), heartbeat_answer(5))
        assert isinstance(outcome, Awaitable)
        task = asyncio.ensure_future(outcome)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return chain

    assert not asyncio.run(go()).faults


def test_a_frame_grown_past_the_cap_is_not_sent() -> None:
    chain = Chain([Scripted(renamed("g" * 300), **BOTH, name="growing")], most_frame_size=100)
    assert asked(chain, heartbeat(5)) == Answer(heartbeat_answer(5, -1))
    fits = Chain([Scripted(renamed("g" * 30), **BOTH)], most_frame_size=len(heartbeat(5, "g" * 30)) - 4)
    assert asked(fits, heartbeat(5)) == Send(heartbeat(5, "g" * 30))


def test_a_response_frame_of_another_header_version_is_a_fault() -> None:
    chain = Chain([Scripted(forward, **BOTH, name="reader")])
    cut = response_frame(HEARTBEAT, 4, b"")[:-1]
    refused = response_frame(HEARTBEAT, 4, pack(">ihb", 0, -1, 0))  # UNKNOWN_SERVER_ERROR
    assert responded(chain, connection(), HEARTBEAT, 4, cut) == Send(refused)


def test_after_a_fault_the_client_gets_an_error_where_a_response_can_say_so() -> None:
    """A policy's fault, whether it cannot read, raises or answers nonsense, is no way past it."""

    def fail(_: object) -> Any:
        raise ZeroDivisionError

    both = {"requests": (0, HEARTBEAT), "responses": (0, HEARTBEAT)}
    assert asked(Chain([Scripted(fail, **both)]), heartbeat(5)) == Answer(heartbeat_answer(5, -1))
    assert asked(Chain([Scripted(fail, **both, fault_error=29)]), heartbeat(5)) == Answer(heartbeat_answer(5, 29))
    assert isinstance(asked(Chain([Scripted(fail, **both, fault_error=None)]), heartbeat(5)), Close)
    assert isinstance(asked(Chain([Scripted(fail, **both)]), produce(5, 0)), Close), "acks=0: no response can say so"
    assert isinstance(asked(Chain([Scripted(fail, **both)]), heartbeat(5)[:-1]), Close), "what it asks for is not known"


def test_an_error_in_place_of_a_response_goes_through_the_filters_that_are_left() -> None:
    def fail(_: object) -> Any:
        raise ZeroDivisionError

    first = Scripted(forward, responses=(HEARTBEAT,))
    chain = Chain([first, Scripted(fail, responses=(HEARTBEAT,))])
    assert responded(chain, connection(), HEARTBEAT, 0, heartbeat_answer(7)) == Send(heartbeat_answer(7, -1))
    assert [seen.message.error_code for _, seen in first.seen] == [-1]


def test_an_error_in_place_of_a_response_whose_request_is_not_known() -> None:
    """Of ListOffsets the errors are in the partitions asked for: without them there is no response."""

    def fail(_: object) -> Any:
        raise ZeroDivisionError

    chain = Chain([Scripted(fail, responses=(2,))])
    assert isinstance(responded(chain, connection(), 2, 1, response_frame(2, 1, pack(">i", 0))), Close)


def test_what_is_behind_a_message_is_passed_over_and_kept() -> None:
    """As librdkafka's mock cluster ends Metadata, and librdkafka its request for all topics."""

    def judge(at: Any) -> Replace:
        at.message.throttle_time_ms = 7
        return Replace(at.message)

    chain = Chain([Scripted(judge, requests=(HEARTBEAT,), responses=(HEARTBEAT,), fails_open=False)])
    answer = pack(">iiihb", 11, 5, 0, 27, 0)  # v1: size, correlation id, throttle time, error code, and one byte more
    outcome = chain.on_response(connection(), RequestFacts(HEARTBEAT, 1, 5), answer)
    assert outcome == Send(pack(">iiihb", 11, 5, 7, 27, 0))
    assert not chain.faults


# Metadata v13 of librdkafka 2.16 for topics = null: a broker reads null and three flags that are false, and ignores the rest
NULL_TOPICS = bytes.fromhex("0003 000d 00000002 0007 72646b61666b61 00 00000000 010000")


def test_a_request_with_bytes_after_it_is_read_as_the_broker_reads_it() -> None:
    passing = Scripted(forward, requests=(METADATA,), responses=(METADATA,))
    outcome = asked(Chain([passing]), frame(NULL_TOPICS))
    assert isinstance(outcome, Send) and outcome.frame == frame(NULL_TOPICS)
    ((_, seen),) = passing.seen
    assert (seen.message.topics, seen.message.allow_auto_topic_creation) == (None, False)

    def allow(at: Any) -> Replace:
        at.message.allow_auto_topic_creation = True
        return Replace(at.message)

    second = Scripted(forward, requests=(METADATA,))
    outcome = asked(Chain([Scripted(allow, requests=(METADATA,)), second]), frame(NULL_TOPICS))
    assert isinstance(outcome, Send)
    assert outcome.frame == frame(NULL_TOPICS[:-6] + b"\1\0\0" + NULL_TOPICS[-3:])
    assert second.seen[0][1].message.allow_auto_topic_creation is True


def test_a_request_that_two_layouts_could_begin_is_not_guessed_at() -> None:
    """ConsumerGroupHeartbeat v0 was changed in place: a broker of one release reads other fields than one of another."""
    name = "ConsumerGroupHeartbeatRequest"
    exact = request_frame(name, 0, group_id="g", subscribed_topic_names=["t"])
    chain = Chain([Scripted(forward, requests=(68,), fails_open=False)])
    assert isinstance(asked(chain, exact), Send)
    assert isinstance(asked(chain, frame(exact[4:] + b"\0\0\0")), Close)


def big_metadata() -> bytes:
    """A Metadata v9 response above LARGE, of topics with partitions."""
    one = {"leader_id": 1, "replica_nodes": [1, 2], "isr_nodes": [2]}
    topics = [{"name": f"topic-{n}", "partitions": [one] * 100} for n in range(50)]
    broker = {"node_id": 1, "host": "broker", "port": 9092}
    body = message("MetadataResponse").encode(9, make("MetadataResponse", brokers=[broker], topics=topics))
    assert len(body) > LARGE
    return response_frame(3, 9, body)


def without_topics(response: Any) -> Replace:
    response.message.topics = response.message.topics[:1]
    return Replace(response.message)


async def forward_later(_: object) -> Forward:
    await asyncio.sleep(0)
    return Forward()


def fails(_: object) -> Forward:
    raise ValueError("no")


@pytest.mark.parametrize(
    "judges",
    [
        [forward],
        [without_topics],
        [without_topics, forward],
        [forward, without_topics],
        [lambda response: Replace(response.message)],
        [forward_later, lambda response: Replace(response.message)],
        [lambda _: Close("no")],
        [fails],
        [forward, lambda _: None],
    ],
)
def test_a_large_frame_gets_the_verdict_of_any_other(judges: list[Any]) -> None:
    frame = big_metadata()
    called = 0

    async def in_thread(function: Any) -> Any:
        nonlocal called
        called += 1
        return await asyncio.to_thread(function)

    async def go(**options: Any) -> tuple[Outcome, Chain]:
        filters = [Scripted(judge, responses=(3,), name=f"filter {n}") for n, judge in enumerate(judges)]
        chain = Chain([RewriteAddresses(), *filters], wait=asyncio.wait_for, **options)
        outcome = chain.on_response(connection(Served()), RequestFacts(3, 9, 7), frame)
        return await outcome if isinstance(outcome, Awaitable) else outcome, chain

    (expected, usual), (outcome, chain) = asyncio.run(go()), asyncio.run(go(in_thread=in_thread))
    assert outcome == expected
    assert chain.faults == usual.faults
    assert called > 1


class OfOrders(Scripted):
    """Wants records of one topic, and knows two topics by their ids."""

    @property
    def topic_names(self) -> dict[str, str]:
        return {"b3JkZXJzb3JkZXJzb3JkZQ": "orders", "YmlsbHNiaWxsc2JpbGxzYg": "bills"}

    def wants_topic(self, topic: str) -> bool:
        return topic == "orders"


@pytest.mark.parametrize(
    ("version", "topics", "nodes", "is_wanted"),
    [
        (12, ["bills"], 0, False),
        (12, ["bills", "orders"], 0, True),
        (12, [], 0, False),
        (17, ["YmlsbHNiaWxsc2JpbGxzYg"], 0, False),
        (17, ["YmlsbHNiaWxsc2JpbGxzYg"], 1, True),  # addresses are to be rewritten
        (17, ["YmlsbHNiaWxsc2JpbGxzYg", "b3JkZXJzb3JkZXJzb3JkZQ"], 0, True),
        (17, ["bm90IGtub3duIG5vdCBrbg"], 0, True),
    ],
)
@pytest.mark.parametrize("size", [10, LARGE])
def test_a_filter_of_some_topics_is_not_asked_about_others(
    version: int, topics: list[str], nodes: int, is_wanted: bool, size: int
) -> None:
    partition = {"records": bytes(size)}
    name = "topic" if version < 13 else "topic_id"
    told = [{"partitions": [partition], **{name: one}} for one in topics]
    ends = [{"node_id": 7, "host": "b", "port": 9092}] * nodes
    body = message("FetchResponse").encode(version, make("FetchResponse", responses=told, node_endpoints=ends))
    whole = response_frame(1, version, body)
    asked = OfOrders(forward, responses=(1,))
    chain = Chain([asked, RewriteAddresses()])
    outcome = chain.on_response(connection(Served()), RequestFacts(1, version, 7), whole)
    assert isinstance(outcome, Send)
    assert (outcome.frame is whole) is (nodes == 0)
    assert bool(asked.seen) is is_wanted
    other = Scripted(forward, responses=(1,))
    assert isinstance(Chain([asked, other]).on_response(connection(), RequestFacts(1, version, 7), whole), Send)
    assert len(other.seen) == 1


def test_a_reply_may_be_of_another_version_than_its_request() -> None:
    def refuse(asked: Any) -> Reply:
        return Reply(asked.new_response(error_code=35), version=0)

    chain = Chain([Scripted(refuse, requests=(18,))])
    sent = request_frame("ApiVersionsRequest", 3)
    assert chain.on_request(connection(), sent) == Answer(frame(pack(">ihi", 7, 35, 0)))


def test_a_response_is_cut_behind_what_other_filters_do_to_it() -> None:
    def lengthen(response: Any) -> Replace:
        response.message.throttle_time_ms = 1
        return Replace(response.message)

    answer = response_frame(HEARTBEAT, 3, pack(">ih", 0, 0))
    chain = Chain(
        [Scripted(lengthen, responses=(HEARTBEAT,)), Scripted(lambda _: Truncate(12), responses=(HEARTBEAT,))]
    )
    cut = chain.on_response(connection(), RequestFacts(HEARTBEAT, 3, 7), answer)
    assert isinstance(cut, Cut)
    assert cut.frame[:4] == answer[:4]
    assert cut.frame[8:] == b"\0\0\0\1"
    whole = Chain([Scripted(lambda _: Truncate(10_000), responses=(HEARTBEAT,))])
    assert whole.on_response(connection(), RequestFacts(HEARTBEAT, 3, 7), answer) == Cut(answer[:-1])


def test_what_a_filter_keeps_of_a_large_message_stays_whole() -> None:
    kept: list[Any] = []

    def keep(response: Any) -> Forward:
        kept.extend((response.message.topics[3], response.message.topics[4].partitions))
        return Forward()

    def keep_all(response: Any) -> Forward:
        kept.append(response.message)
        return Forward()

    async def in_thread(function: Any) -> Any:
        return function()

    async def go() -> None:
        chain = Chain([Scripted(keep, responses=(3,)), Scripted(keep_all, responses=(3,))], in_thread=in_thread)
        outcome = chain.on_response(connection(), RequestFacts(3, 9, 7), big_metadata())
        assert isinstance(outcome, Awaitable)
        await outcome

    asyncio.run(go())
    whole, topic, partitions = kept
    assert [topic.name for topic in whole.topics] == [f"topic-{n}" for n in range(50)]
    assert (topic.name, len(topic.partitions), len(partitions)) == ("topic-3", 100, 100)
    assert partitions[99].replica_nodes == [1, 2]


def test_a_filter_that_overrides_nothing_forwards() -> None:
    plain, anything = Filter(), None
    assert plain.on_request(anything) == plain.on_response(anything) == Forward()  # type: ignore[arg-type]
    assert plain.on_tail(connection(), RequestFacts(1, 16, 7), b"\0") == b"\0"
    plain.on_close(connection())


def test_a_new_response_is_of_the_requests_api() -> None:
    request = Request(connection(), 12, 0, 7, "app", make("HeartbeatRequest"))
    assert request.new_response(error_code=27) == make("HeartbeatResponse", error_code=27)
    with pytest.raises(TypeError, match="has no field no_such"):
        request.new_response(no_such=1)
