"""What filters cost the worker that forwards: `python -m tests.bench.filters [--rounds N] [--only without|changing|validating]`.

Proxies with and without a filter stand side by side between a load and a broker made here, and get the same frames in turn; what
is printed is CPU time of the worker process alone, the median of the rounds' own ratios, and the spread of them.

    with and without    a Python filter on Metadata, and audit, beside heartbeats, Produce and Fetch, which they do not want
    MB/s                headers (Produce), mask (Fetch), and a chain, for records of 100 B to 10 KB in batches of 16 KB, by codec:
                        MB of records, not compressed, in a CPU second of the worker; beside it what the codec alone takes to
                        decompress and compress them, in a process that does nothing else
    validating          validate (Produce) by id and by payload: nested Avro of about 200 B, and flat of 1 KB

With seven rounds on an idle machine with 2 cores (AMD EPYC, Linux 6.18), 2026-11-22: CPU of the worker a request, and as a
multiple of that without a filter (median, and the spread of the rounds, which is that of the machine).

    heartbeat 8x5      14.4 us   metadata x0.93 (0.73-1.10)   audit x0.94 (0.79-1.36)
    produce 1 KB 8x5   15.6 us   metadata x0.91 (0.71-1.12)   audit x1.00 (0.76-1.15)
    produce 1 MB 4x1  351.5 us   metadata x0.96 (0.83-1.13)   audit x1.00 (0.79-1.24)
    fetch 1 MB 4x1    345.8 us   metadata x1.00 (0.71-1.29)   audit x1.04 (0.75-1.23)

    MB/s of records    none      gzip    snappy     lz4       zstd
    headers          217-324    59-72   233-280   217-281   111-154
    mask             174-256    59-72   174-233   196-212   109-141
    the codec alone             68-92   413-516   439-546   140-206

With three rounds on a machine with a load of 14, 2026-11-28, holding, decoding and forwarding the frames included; MB of records
as they are when they are not compressed:

    MB/s of records     200 B none   200 B lz4   1 KB none   1 KB lz4
    validate by id             475        1824         982       1386
    validate by payload        355         497        1081        969
"""

import contextlib
import importlib
import io
import json
import random
import selectors
import socket
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kproxy.filters.contract import Filter, Forward, Replace, Request, Response, Verdict
from kproxy.protocol import message, response_header_version
from kproxy.protocol.records import Codec, Record, read_batches
from kproxy.protocol.records.compression import compress, decompress
from kproxy.protocol.records.editing import RecordBatch, write_batches
from tests.bench.measuring import cpu_a_call, cpu_of, options_of, spread
from tests.support.frames import frame, request
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.messages import make

TOPIC = "orders"
METADATA, PRODUCE, FETCH, HEARTBEAT = 3, 0, 1, 12
VERSIONS = {PRODUCE: 9, FETCH: 12, METADATA: 9, HEARTBEAT: 4}
BATCH = 16_384  # bytes of records: the default of producers
FIELD = 1_000_000
SIZES = (100, 1_000, 10_000)
CHUNK = 1 << 18


class SeesMetadata(Filter):
    """A filter of the kind that people write: it reads and replaces every Metadata request and response."""

    requests = responses = (METADATA,)

    def on_request(self, request: Request) -> Verdict:
        """Replace it."""
        return Replace(request.message)

    def on_response(self, response: Response) -> Verdict:
        """Count its topics."""
        return Forward() if len(response.message.topics) else Replace(response.message)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Load:
    """What is sent again and again: *inflight* requests at a time on each of *connections*."""

    name: str
    api_key: int
    request: bytes
    response: bytes
    connections: int = 4
    inflight: int = 1


class Broker:
    """Answers each request with the response of its API, with its correlation id."""

    def __init__(self) -> None:
        self.answers: dict[int, bytes] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        silent = selectors.DefaultSelector()  # connections have a thread from their first request on
        silent.register(self._listener, selectors.EVENT_READ)
        while True:
            for found in (key.fileobj for key, _ in silent.select()):
                if found is self._listener:
                    silent.register(self._listener.accept()[0], selectors.EVENT_READ)
                else:
                    silent.unregister(found)
                    threading.Thread(target=self._serve, args=(found,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            frames = Frames(connected)
            while True:
                api_key, _, correlation_id = frames.next(8)
                connected.sendall(self._answer(api_key, correlation_id))

    def _answer(self, api_key: int, correlation_id: int) -> bytes:
        answer = self.answers[api_key]
        return answer[:4] + struct.pack(">i", correlation_id) + answer[8:]


class Frames:
    """Reads frames and looks at their first bytes only."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._buffer = b""

    def next(self, head: int) -> tuple[int, int, int]:
        """Read a frame to its end; api key, version, correlation id of a request, or the last alone of a response."""
        self._fill(4 + head)
        left = int.from_bytes(self._buffer[:4], "big") + 4
        read: tuple[int, ...] = struct.unpack_from(">hhi" if head == 8 else ">i", self._buffer, 4)
        while left > len(self._buffer):
            left -= len(self._buffer)
            self._buffer = self._more()
        self._buffer = self._buffer[left:]
        return (0, 0, *read)[-3:]  # type: ignore[return-value]

    def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            self._buffer += self._more()

    def _more(self) -> bytes:
        data = self._socket.recv(CHUNK)
        if not data:
            raise EOFError
        return data


class Side:
    """A proxy, and the CPU time of its worker."""

    def __init__(self, name: str, folder: Path, broker: Broker, filters: list[dict[str, Any]], **settings: Any) -> None:
        self.name = name
        served = cluster([broker.address], addresses={"mode": "fixed"}, filters=filters)
        self.proxy = Proxy(folder / name, [served], analysis={"enabled": False}, **settings).start()

    def run(self, load: Load, seconds: float) -> tuple[int, float]:
        """Requests that were answered, and the CPU seconds of the worker for them."""
        before = cpu_of(self.proxy.workers())
        count = drive(self.proxy.bootstrap(), load, seconds)
        spent = cpu_of(self.proxy.workers()) - before
        if not count:
            raise RuntimeError(f"{self.name}: {load.name} was not answered: {self.proxy.said()}")
        return count, spent


def drive(address: str, load: Load, seconds: float) -> int:
    """Send a load for so long; how many requests were answered, 0 where any connection got no answer."""
    host, _, port = address.rpartition(":")
    sockets = [socket.create_connection((host, int(port))) for _ in range(load.connections)]
    counts, until = [0] * load.connections, time.monotonic() + seconds
    threads = [
        threading.Thread(target=_send, args=(connected, load, until, counts, number))
        for number, connected in enumerate(sockets)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connected in sockets:
        connected.close()
    return sum(counts) if all(counts) else 0


def _send(connected: socket.socket, load: Load, until: float, counts: list[int], number: int) -> None:
    frames = Frames(connected)
    together = load.request * load.inflight
    with contextlib.suppress(OSError, EOFError):
        while time.monotonic() < until:
            connected.sendall(together)
            for _ in range(load.inflight):
                frames.next(4)
            counts[number] += load.inflight


def asked(api_key: int, **values: Any) -> bytes:
    """A request frame."""
    name = f"{message_name(api_key)}Request"
    codec, version = message(name), VERSIONS[api_key]
    return request(api_key, version, 7, codec.encode(version, make(name, **values)), tags=b"\0")


def answered(api_key: int, **values: Any) -> bytes:
    """A response frame."""
    name = f"{message_name(api_key)}Response"
    version = VERSIONS[api_key]
    body = message(name).encode(version, make(name, **values))
    return frame(struct.pack(">i", 7) + b"\0" * response_header_version(api_key, version) + body)


def message_name(api_key: int) -> str:
    return {PRODUCE: "Produce", FETCH: "Fetch", METADATA: "Metadata", HEARTBEAT: "Heartbeat"}[api_key]


def produce(name: str, records: bytes, connections: int = 4, inflight: int = 1) -> Load:
    topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}
    response = {"name": TOPIC, "partition_responses": [{"index": 0}]}
    frames = asked(PRODUCE, acks=-1, timeout_ms=30_000, topic_data=[topic]), answered(PRODUCE, responses=[response])
    return Load(name, PRODUCE, *frames, connections, inflight)


def fetch(name: str, records: bytes) -> Load:
    data = {"partition_index": 0, "high_watermark": 9, "records": records}
    return Load(name, FETCH, asked(FETCH), answered(FETCH, responses=[{"topic": TOPIC, "partitions": [data]}]))


def value(chance: random.Random, size: int) -> bytes:
    """A JSON object of about *size* bytes with something to hide, and words: text as it is, not noise."""
    fields = {
        "id": chance.randrange(10**9),
        "email": f"someone{chance.randrange(1_000)}@example.com",
        "card": {"number": f"4111{chance.randrange(10**8):08}"},
        "note": "",
    }
    left = size - len(json.dumps(fields, separators=(",", ":")))
    words = ("order", "customer", "delivery", "payment", "of", "the", "was", "sent", "Größe", "2026")
    note = ""
    while len(note) < left:
        note += f"{chance.choice(words)} "
    return json.dumps({**fields, "note": note[: max(left, 0)]}, separators=(",", ":"), ensure_ascii=False).encode()


LINE = {"type": "record", "name": "Line", "fields": [{"name": name, "type": "string"} for name in ("sku", "unit")]}
NESTED = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "double", "string"]}},
        {"name": "parent", "type": ["null", "Order"]},
    ],
}
SCHEMA_ID = 1


def framed(chance: random.Random, size: int) -> bytes:
    """A value of NESTED of about *size* bytes, as Confluent's serializer writes it."""
    fastavro = importlib.import_module("fastavro")
    large = size >= 1_000

    def order(depth: int) -> dict[str, Any]:
        lines = [{"sku": "x" * (size - 60 if large else 6), "unit": "pcs"} for _ in range(1 if large else 4)]
        inner = order(depth + 1) if depth < 2 and not large else None
        return {
            "id": chance.randrange(10**9),
            "country": chance.choice([None, "DE"]),
            "lines": lines,
            "tags": {"a": 1.5, "b": None, "c": "text"},
            "parent": inner,
        }

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(NESTED), order(0))
    return b"\0" + SCHEMA_ID.to_bytes(4, "big") + stream.getvalue()


def field(size: int, codec: Codec, value: Callable[[random.Random, int], bytes] = value) -> tuple[bytes, int]:
    """About 1 MB of records in batches of 16 KB, and their size before they are compressed."""
    chance = random.Random(size)
    count = max(1, BATCH // size)
    batches = []
    for _ in range(FIELD // BATCH):
        records = [
            Record(offset=at, timestamp=at, key=b"key-%06d" % chance.randrange(10**6), value=value(chance, size))
            for at in range(count)
        ]
        batches.append(RecordBatch(records, codec=codec, base_offset=0))
    plain = write_batches([RecordBatch(batch.records, base_offset=0) for batch in batches])
    return write_batches(batches), len(plain)


def codec_alone(records: bytes) -> float:
    """CPU seconds that decompressing and compressing all batches takes."""
    batches = [(Codec(batch.codec), batch.raw[61:]) for batch in read_batches(records)]

    def work() -> None:
        for codec, raw in batches:
            compress(codec, bytes(decompress(codec, memoryview(raw)).data))

    return cpu_a_call(work, 5, 0.1)


def compared(sides: list[Side], load: Load, broker: Broker, rounds: int, seconds: float) -> Iterator[str]:
    """CPU a request of each side, in turn, and as a multiple of the first side's in the same round."""
    broker.answers[load.api_key] = load.response
    spent: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(rounds + 1):
        for side in random.sample(sides, len(sides)):
            count, cpu = side.run(load, seconds)
            if turn:  # the first round warms up
                spent[side.name].append(cpu / count)
    first = spent[sides[0].name]
    for side in sides:
        own = spent[side.name]
        ratios = [mine / other for mine, other in zip(own, first, strict=True)]
        yield f"{load.name:<22} {side.name:<12} {statistics.median(own) * 1e6:9.1f} us  {spread(ratios, 2)}"


def without_wanting(sides: dict[str, Side], broker: Broker, rounds: int) -> Iterator[str]:
    """The rows of traffic that no filter wants."""
    large = field(1_000, Codec.NONE)[0]
    small = write_batches([RecordBatch([Record(value=bytes(1_000))])])
    beat = Load("heartbeat 8x5", HEARTBEAT, asked(HEARTBEAT, group_id="g", member_id="m"), answered(HEARTBEAT), 8, 5)
    for load in (
        beat,
        produce("produce 1 KB 8x5", small, 8, 5),
        produce("produce 1 MB 4x1", large),
        fetch("fetch 1 MB 4x1", large),
    ):
        yield from compared([sides[name] for name in ("none", "metadata", "audit")], load, broker, rounds, 0.5)


def changing(sides: dict[str, Side], broker: Broker, rounds: int) -> Iterator[str]:
    """The rows of traffic that filters change."""
    kinds: list[tuple[str, Callable[[str, bytes], Load]]] = [("headers", produce), ("chain", produce), ("mask", fetch)]
    for size in SIZES:
        for codec in Codec:
            records, plain = field(size, codec)
            alone = codec_alone(records)
            for name, load_of in kinds:
                load = load_of(f"{name} {size} B {codec.name.lower()}", records)
                broker.answers[load.api_key] = load.response
                rows = [side.run(load, 0.5) for _ in range(rounds + 1) for side in (sides[name],)][1:]
                speeds = [count * plain / cpu / 1e6 for count, cpu in rows]
                shown = f"{statistics.median(speeds):7.0f} MB/s ({min(speeds):.0f}-{max(speeds):.0f})"
                beside = f"codec alone {plain / alone / 1e6:.0f} MB/s" if codec else ""
                yield f"{load.name:<24} {shown:<28} {beside}"


def validating(folder: Path, broker: Broker, rounds: int) -> Iterator[str]:
    """The rows of records that are validated."""
    (folder / f"{SCHEMA_ID}.avsc").write_text(json.dumps(NESTED))
    with contextlib.ExitStack() as stack:
        sides = []
        for depth in ("id", "payload"):
            filters = [{"use": "validate", "with": {"rules": [{"values": depth, "subject": None}]}}]
            side = Side(f"validate-{depth}", folder, broker, filters, schemas={"folders": [str(folder)]})
            stack.callback(side.proxy.close)
            sides.append(side)
        for size in (200, 1_000):
            for codec in (Codec.NONE, Codec.LZ4):
                records, plain = field(size, codec, framed)
                load = produce(f"{size} B {codec.name.lower()}", records)
                broker.answers[PRODUCE] = load.response
                for side in sides:
                    rows = [side.run(load, 0.5) for _ in range(rounds + 1)][1:]
                    speeds = [count * plain / cpu / 1e6 for count, cpu in rows]
                    shown = f"{statistics.median(speeds):7.0f} MB/s ({min(speeds):.0f}-{max(speeds):.0f})"
                    yield f"{side.name:<18} {load.name:<12} {shown}"


def main() -> None:
    """Run the rows."""
    given = options_of(__doc__, rounds=7, only="")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        broker = Broker()
        sides = {}
        for name, filters in chains(Path(folder)).items():
            sides[name] = Side(name, Path(folder), broker, filters)
            stack.callback(sides[name].proxy.close)
        if given.only in ("", "without"):
            print("CPU of the worker a request, and as a multiple of no filter:")
            for line in without_wanting(sides, broker, given.rounds):
                print(line, flush=True)
        if given.only in ("", "validating"):
            print("MB of validated records in a CPU second of the worker:")
            for line in validating(Path(folder), broker, given.rounds):
                print(line, flush=True)
        if given.only in ("", "changing"):
            print("MB of records in a CPU second of the worker:")
            for line in changing(sides, broker, given.rounds):
                print(line, flush=True)


def chains(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The filters of each side."""

    def audit(name: str) -> dict[str, Any]:
        return {"use": "audit", "with": {"file": {"path": str(folder / name)}}}

    headers: dict[str, Any] = {"use": "headers"}
    deny = {"use": "deny", "with": {"rules": [{"when": 'topic.startsWith("internal-")', "api_name": ["Produce"]}]}}
    return {
        "none": [],
        "metadata": [{"use": "tests.bench.filters:SeesMetadata"}],
        "audit": [audit("audit.jsonl")],
        "headers": [headers],
        "chain": [headers, deny, audit("chain.jsonl")],
        "mask": [{"use": "mask", "with": {"rules": [{"fields": ["$.email", "$.card.number"]}]}}],
    }


if __name__ == "__main__":
    main()
