"""The closing summary: right counts, bounded, in words."""

from kproxy.pipeline.summary import KEPT, Summary
from kproxy.session import BadFrame, Cut, Direction, Event, Gap, NotKafka, SaslToken
from tests.support.conversation import broker, client, closing, events_of
from tests.support.corpus import CONNECTION, START
from tests.support.frames import heartbeat, heartbeat_answer, produce, response


def summary_of(*events: Event) -> list[str]:
    summary = Summary()
    for event in events:
        summary.write(event, None)
    return list(summary.lines({"not IP": 2}))


def test_frames_and_exchanges() -> None:
    events = events_of(client >> produce(1, acks=0), client >> heartbeat(7), broker >> heartbeat_answer(7))
    assert summary_of(*events) == [
        "3 frames in 2 exchanges on 1 connection; none undecoded, no gaps",
        "  2 packets passed over: not IP",
    ]


def test_what_went_wrong_is_told_with_its_reason() -> None:
    (undecoded,) = events_of(client >> heartbeat(7), broker >> response(7, b"\0"))
    (unanswered,) = events_of(client >> heartbeat(7), closing)
    lines = summary_of(
        undecoded,
        unanswered,
        SaslToken(CONNECTION, START, Direction.REQUEST, 1),
        Gap(CONNECTION, START, Direction.REQUEST, 1500, 20),
        BadFrame(CONNECTION, START, Direction.REQUEST, "no\nframe"),
        NotKafka(CONNECTION, START, "tls", Direction.REQUEST, "TLS"),
        NotKafka(CONNECTION, START, "tls", Direction.REQUEST, "TLS"),
    )
    assert lines[0] == "3 frames in 2 exchanges on 1 connection, 1 SASL token; 1 undecoded, 1 gap"
    assert lines[1].startswith("  undecoded x1: response: HeartbeatResponse v0: errorCode")
    assert "  unanswered x1: the capture ended before the response" in lines
    assert "  bad frame x1: no\\nframe" in lines
    assert "  not Kafka x2: tls: TLS" in lines
    assert "  gaps: 1.5 KB missing, 20 B passed over" in lines


def test_bodies_that_are_cut_are_told_with_why() -> None:
    begun = produce(1, acks=1)[:24]
    rest = len(produce(1, acks=1)) - len(begun)
    by_snaplen = events_of(client >> begun, client.loses(rest, Cut.SNAPLEN), client >> heartbeat(2), closing)
    at_the_end = events_of(client >> heartbeat(1), broker >> heartbeat_answer(1)[:-1], closing)
    lines = summary_of(*by_snaplen, *by_snaplen, *at_the_end)
    assert lines[0].startswith("6 frames in 5 exchanges")
    assert "  bodies cut by the capture's snaplen: 2 of 6 frames" in lines
    assert "  bodies cut by the capture's end: 1 of 6 frames" in lines


def test_any_number_of_reasons_stays_bounded() -> None:
    summary = Summary()
    for number in range(10 * KEPT):
        summary.write(BadFrame(CONNECTION, START, Direction.REQUEST, f"reason {number}"), None)
    assert len(summary.bad_frames) <= KEPT + 1
    assert sum(summary.bad_frames.values()) == 10 * KEPT
    assert len(list(summary.lines())) < 10


def test_how_many_were_shown() -> None:
    summary = Summary()
    for event in events_of(client >> heartbeat(7), broker >> heartbeat_answer(7)):
        summary.write(event, None, shown=False)
    assert "  0 shown" in list(summary.lines())
