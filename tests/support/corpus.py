"""Bytes that others wrote: Kafka's own classes (tests/golden/README.md) and real clients and brokers (captures/README.md).

And what is made of them: exchanges for the tests of what shows them, and bytes that are damaged.
"""

import gzip
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kproxy.capture import open_capture, read_flows
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.session import Connection, Direction, Event, Exchange, Session

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
CAPTURES = ROOT / "captures"


@cache
def golden_lines(group: str) -> tuple[dict[str, Any], ...]:
    """All lines of ``<group>.jsonl.gz``."""
    with gzip.open(GOLDEN / f"{group}.jsonl.gz", "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)


def payloads(kind: str) -> list[dict[str, Any]]:
    """The lines of embedded.jsonl.gz of one kind."""
    found = [line for line in golden_lines("embedded") if line["kind"] == kind]
    assert found, f"the corpus has no {kind}"
    return found


def golden_line(kind: str) -> dict[str, Any]:
    """The first line of records.jsonl.gz of that kind."""
    return next(line for line in golden_lines("records") if line["kind"] == kind)


def golden_bytes(kind: str) -> bytes:
    return bytes.fromhex(golden_line(kind)["hex"])


def captured_exchanges() -> Iterator[tuple[str, Exchange]]:
    """Every answered request of every capture, with the name of its file; not those whose bytes are missing in part."""
    for path in sorted(CAPTURES.glob("*.pcap*")):
        with open_capture(path) as capture:
            for event in FlowEvents(read_flows(capture)):
                if isinstance(event, Exchange) and event.response is not None and not event.response.cut:
                    yield path.name, event


# What breaks decoders most often: lengths and counts at the edges of their types, endless varints, nulls.
EDGES = [
    bytes.fromhex(digits)
    for digits in (
        *("00", "01", "7f", "80", "ff"),
        *("7fff", "8000", "ffff"),
        *("7fffffff", "80000000", "ffffffff", "fffffffe", "7fffffffffffffff"),
        *("ffffffff07", "ffffffff0f", "ffffffffff01"),
    )
]


def golden_bodies() -> list[tuple[str, int, bytes]]:
    """(message, version, bytes) of every API message and every other message of the corpus."""
    return [
        (line["message"], line["version"], bytes.fromhex(line["hex"]))
        for group in ("messages", "structs")
        for line in golden_lines(group)
    ]


def damaged(chance: random.Random, data: bytes) -> bytes:
    """*data* with one to four things wrong with it, each of a kind that real damage or an attacker makes."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = chance.randrange(len(out) + 1)
        match chance.randrange(6):
            case 0 if place < len(out):
                out[place] ^= 1 << chance.randrange(8)
            case 1:
                edge = chance.choice(EDGES)
                out[place : place + len(edge)] = edge
            case 2:
                out[place:place] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                del out[place : place + chance.randrange(1, 9)]
            case 4:
                del out[place:]
            case _:
                start = chance.randrange(len(out) + 1)
                out[place:place] = out[start : start + chance.randrange(1, 64)]
    return bytes(out)


START = 1_763_717_797_151_234_000  # 2025-11-21T09:36:37.151234Z, says GNU date
CONNECTION = Connection(3, "10.0.0.5:51234", "10.0.0.9:9092")


@cache
def golden_pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(request, response) lines of golden/frames.jsonl.gz, an API, version and sample each; none that is not answered."""
    sides: dict[str, dict[Any, dict[str, Any]]] = {"request": {}, "response": {}}
    for line in golden_lines("frames"):
        if line["kind"] != "unsupported-version":
            sides[line["direction"]][line["apiKey"], line["version"], line["sample"]] = line
    answered = (key for key in sides["request"] if key in sides["response"])
    pairs = [(sides["request"][key], sides["response"][key]) for key in answered]
    return [pair for pair in pairs if pair[0]["json"].get("acks") != 0]


def golden_exchange(request: dict[str, Any], response: dict[str, Any]) -> Exchange:
    """What a session makes of a request and a response of golden/; it begins at START and takes 3.1 ms."""
    answer = bytearray.fromhex(response["frameHex"])
    answer[4:8] = request["header"]["correlationId"].to_bytes(4, "big", signed=True)
    session = Session(number=3, client=CONNECTION.client, broker=CONNECTION.broker)
    events: list[Event] = session.receive(Direction.REQUEST, bytes.fromhex(request["frameHex"]), START)
    events += session.receive(Direction.RESPONSE, bytes(answer), START + 3_100_000)
    events += session.close(START + 4_000_000)
    return next(event for event in events if isinstance(event, Exchange))


def golden_exchanges() -> Iterator[tuple[dict[str, Any], dict[str, Any], Exchange]]:
    """Every pair with the exchange made of it, each on a connection of its own."""
    for request, response in golden_pairs():
        yield request, response, golden_exchange(request, response)
