"""Exchanges for the tests of what shows them: made from Kafka's own frames, or from bytes by hand."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kproxy.session import Connection, Direction, Event, Exchange, Session

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
CAPTURES = ROOT / "captures"
START = 1_763_717_797_151_234_000  # 2025-11-21T09:36:37.151234Z, says GNU date
CONNECTION = Connection(3, "10.0.0.5:51234", "10.0.0.9:9092")


@cache
def golden_pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(request, response) lines of golden/frames.jsonl.gz, an API, version and sample each; none that is not answered."""
    with gzip.open(GOLDEN / "frames.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    sides: dict[str, dict[Any, dict[str, Any]]] = {"request": {}, "response": {}}
    for line in lines:
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
