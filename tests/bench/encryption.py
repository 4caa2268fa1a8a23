"""What the filter encrypt costs: `python -m tests.bench.encryption [--rounds N] [--kroxylicious]`.

It prints MB of values, not compressed, in a CPU second of one core, for Produce requests and Fetch responses with 1 MB of them:
its batches are opened, encrypted or decrypted where they lie in the frame, and packed again, all in one process. *headers* is
the same work with one more header a record in place of encryption, round by round. *keyed* is the option record_keys, *packed*
the option compress.

On a machine with 2 cores (AMD EPYC, Linux 6.18), 2026-11-28, five rounds, the median; it is three times as fast when nothing
else runs as when it is full:

                     1 KB none  1 KB lz4  1 KB zstd  64 KB none  64 KB lz4  64 KB zstd
    produce                627       462        346       2,318      1,764       1,604
    fetch                  449       396        306       2,209      1,603       1,719
    packed produce         157       147        139       1,174      1,046       1,078
    packed fetch           192       184        171       1,663      1,456       1,438
    keyed, of produce      0.58      0.61       0.67        0.83       0.96       0.90    in a run of its own, three rounds
    keyed, of fetch        0.56      0.53       0.64        0.89       0.96       0.87
    headers              3,277     2,853        929       3,166      2,388       3,181
    stored bytes          1.12      1.04       1.03        1.00       1.00        1.00    a byte of the values
    when packed           0.27      0.18       0.18        0.03       0.03        0.03

One encrypted field of 16 bytes in values of 1 KB (option fields), a run of its own, five rounds; the machine was full. Before it
was found by compiled code and spliced in, Protobuf made 109 and 97:

                 JSON  Avro  Protobuf
    produce       240   242       236
    fetch         192   182       182

With --kroxylicious, real clients (librdkafka) write and read through real proxies (also --java, --mb and --warm): CPU of all
processes of a proxy, for the same records, round by round, both with a key of one OpenBao. Kroxylicious is 0.12.0, the newest
whose encryption is at Maven Central. It gets *warm* CPU seconds of the same work first. "analyzes": kproxy decodes all traffic
as well, which Kroxylicious does not; else it runs with --no-analysis. Needs java, Maven and `bao`.

On the same machine, Java 17, three rounds of 128 MB: CPU ms a MB of values; in brackets kproxy's multiple of Kroxylicious', which
is the median of the rounds

                            1 KB none     1 KB zstd     64 KB none    64 KB zstd
    Kroxylicious, produce   3.25          5.74          1.49          2.28
    Kroxylicious, fetch     2.55          2.83          1.03          1.43
    kproxy, produce         1.63 (0.50)   1.81 (0.32)   0.86 (0.58)   0.90 (0.39)
    kproxy, fetch           1.38 (0.54)   1.56 (0.54)   0.75 (0.71)   0.79 (0.56)
    analyzes, produce       2.29 (0.70)   1.83 (0.32)   1.49 (1.03)   0.93 (0.44)
    analyzes, fetch         1.98 (0.79)   2.24 (0.82)   1.39 (1.36)   1.36 (0.98)

Kroxylicious differs by up to a half from run to run (1 KB, produce: 2.12 and 3.25). The same clients through kproxy with no
filter took 0.35 to 0.4 ms a MB. A loop that receives 1 MB, calls `cryptography` for each value and sends 1 MB, and does nothing
else, takes 1.0 to 1.1 ms with values of 1 KB and 0.25 to 0.3 with 64 KB.

After 3 CPU seconds of work in place of 30 (--mb 4 --warm 1 --rounds 1), kproxy takes 0.05 to 0.2 times the CPU of Kroxylicious,
whose code is still being compiled then. Once it is warm, at most half of its CPU was reached in three of the eight cases.
"""

import json
import statistics
import tempfile
import time
import uuid
from argparse import Namespace
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from kproxy.encryption.services import loading
from kproxy.filters.chain import Chain
from kproxy.filters.contract import RequestFacts, Send
from kproxy.filters.loading import load_filter
from kproxy.protocol.records import Codec, Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.schemas.store import Collection, Schema, Schemas
from tests.bench.measuring import cpu_of, options_of, spread
from tests.support.encryption import GivenKeys, GivenService
from tests.support.filtering import CallingRuntime, connection
from tests.support.kafka import jars
from tests.support.kafka.fixtures import started as started_broker
from tests.support.kafka.processes import children, eventually, spawn, stop
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.messages import answer_frame, request_frame, request_in
from tests.support.openbao import OpenBao
from tests.support.ports import free_ports
from tests.support.sockets import create_topic, metadata

SIZE = 1 << 20
KROXYLICIOUS = "0.12.0"
MODULES = ("kroxylicious-runtime", "kroxylicious-record-encryption", "kroxylicious-kms-provider-hashicorp-vault")
CONFIGURATION = """
filterDefinitions:
- name: encrypt
  type: RecordEncryption
  config:
    kms: VaultKmsService
    kmsConfig: {{vaultTransitEngineUrl: "{bao}/v1/transit", vaultToken: {{password: {token}}}}}
    selector: TemplateKekSelector
    selectorConfig: {{template: kek}}
defaultFilters: [encrypt]
virtualClusters:
- name: demo
  targetCluster: {{bootstrapServers: "{broker}"}}
  gateways:
  - name: g
    portIdentifiesNode: {{bootstrapAddress: "{listen}", advertisedBrokerAddressPattern: 127.0.0.1}}
"""
WORDS = [f"word{number} " for number in range(997)]


class Runtime(CallingRuntime):
    """In which the thread that asks the key service gets its turn."""

    async def sleep(self, seconds: float) -> None:
        time.sleep(0.001)


def field(size: int, codec: Codec) -> bytes:
    """About 1 MB of records with values of *size* bytes."""
    text = "".join(WORDS * (size // 6000 + 2)).encode()
    records = [
        Record(offset=at, timestamp=at, key=b"k%d" % at, value=text[at : at + size]) for at in range(SIZE // size)
    ]
    return write_batches([RecordBatch(records, codec=codec)])


def made(outcome: Any) -> Any:
    """The outcome. Nothing here waits, so an event loop, which takes longer than the work, is not needed."""
    if not isinstance(outcome, Coroutine):
        return outcome
    steps = outcome
    try:
        while True:
            steps.send(None)
    except StopIteration as finished:
        return finished.value


def produce(chain: Chain, records: bytes) -> Callable[[], bytes]:
    topic = {"name": "orders", "partition_data": [{"index": 0, "records": records}]}
    frame = request_frame("ProduceRequest", 9, acks=-1, topic_data=[topic])

    def call() -> bytes:
        outcome = made(chain.on_request(connection(), frame))
        assert isinstance(outcome, Send)
        return outcome.frame

    return call


def fetch(chain: Chain, records: bytes) -> Callable[[], bytes]:
    topic = {"topic": "orders", "partitions": [{"partition_index": 0, "records": records}]}
    frame = answer_frame("FetchResponse", 12, responses=[topic])

    def call() -> bytes:
        outcome = made(chain.on_response(connection(), RequestFacts(1, 12, 7), frame))
        assert isinstance(outcome, Send)
        return outcome.frame

    return call


def records_of(frame: bytes) -> bytes:
    sent: Any = request_in(frame)
    records: bytes = sent.topic_data[0].partition_data[0].records
    return records


def rate(call: Callable[[], bytes]) -> float:
    """MB of values a CPU second."""
    start, count = time.process_time(), 0
    while (spent := time.process_time() - start) < 0.25:
        call()
        count += 1
    return count * SIZE / spent / 1e6


def main() -> None:
    options = options_of(__doc__, rounds=7, kroxylicious=False, java="java", mb=128, warm=30.0)
    if options.kroxylicious:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            beside_kroxylicious(options, Path(folder), stack)
    else:
        in_one_process(options.rounds)


def in_one_process(rounds: int) -> None:
    loading.BUILT_IN["given"] = "tests.support.encryption:GivenService"
    GivenService.keys = GivenKeys()
    fields(rounds)
    rule = {"topics": ["*"], "key": "kek"}
    of_keys = {"key": "kek", "wrapped": b64encode(GivenService.keys.new_data_key("kek").wrapped).decode()}
    chain, packing, keyed = (
        Chain([load_filter("encrypt", {"keys": {"use": "given"}, "rules": [each]})], runtime=Runtime())
        for each in (rule, {**rule, "compress": "zstd"}, {**rule, "record_keys": of_keys})
    )
    headers = Chain(
        [load_filter("headers", {"origin": None, "client_id": None, "fixed": {"a": "b"}})], runtime=Runtime()
    )
    for size in (1024, 65_536):
        for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
            plain = field(size, codec)
            calls = {"produce": produce(chain, plain), "headers": produce(headers, plain)}
            stored = records_of(calls["produce"]())
            calls["fetch"] = fetch(chain, stored)
            calls["keyed produce"] = produce(keyed, plain)
            calls["keyed fetch"] = fetch(keyed, records_of(calls["keyed produce"]()))
            calls["packed produce"] = produce(packing, plain)
            packed = records_of(calls["packed produce"]())
            calls["packed fetch"] = fetch(packing, packed)
            rates: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(rounds):
                for name, call in calls.items():
                    rates[name].append(rate(call))
            shown = "  ".join(f"{name} {statistics.median(found):5.0f}" for name, found in rates.items())
            sizes = f"stored {len(stored) / SIZE:.2f} bytes a byte, packed {len(packed) / SIZE:.2f}"
            print(f"{size // 1024:3} KB {codec.name.lower():5} {shown} MB/s; {sizes}")


AVRO = {"type": "record", "name": "Order", "fields": [{"name": f"f{at}", "type": "string"} for at in range(11)]}
MESSAGE = f"message Order {{ {' '.join(f'string f{at} = {at + 1};' for at in range(11))} }}"
PROTOBUF = f'syntax = "proto3"; {MESSAGE}'


def fields(rounds: int) -> None:
    """One field of 16 bytes in values of 1 KB, in three formats."""
    source = Collection("a registry")
    source.add(Schema(json.dumps(AVRO), "AVRO", id=7))
    source.add(Schema(PROTOBUF, "PROTOBUF", id=8))
    schemas = Schemas([source])
    text = "".join(WORDS)
    document = {f"f{at}": text[at * 90 : at * 90 + (16 if at == 4 else 90)] for at in range(11)}
    calls: dict[str, Callable[[], bytes]] = {}
    for name in ("json", "avro", "protobuf"):
        runtime = Runtime()
        runtime.given_schemas = schemas
        rule = {"topics": ["*"], "key": "kek", "fields": ["$.f4"]}
        chain = Chain([load_filter("encrypt", {"keys": {"use": "given"}, "rules": [rule]})], runtime=runtime)
        value = json.dumps(document).encode()
        if name != "json":
            schema = schemas.find(7 if name == "avro" else 8, "orders")
            assert schema is not None
            payload = schemas.compiled(schema).write(document)
            value = b"\0\0\0\0" + (b"\7" if name == "avro" else b"\x08\0") + payload
        count = SIZE // len(value)
        records = [Record(offset=at, timestamp=at, key=b"k%d" % at, value=value) for at in range(count)]
        plain = write_batches([RecordBatch(records)])
        calls[f"{name} produce"] = produce(chain, plain)
        calls[f"{name} fetch"] = fetch(chain, records_of(calls[f"{name} produce"]()))
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            rates[name].append(rate(call))
    print("a field ", "  ".join(f"{name} {statistics.median(found):5.0f}" for name, found in rates.items()), "MB/s")


def beside_kroxylicious(options: Namespace, folder: Path, stack: ExitStack) -> None:
    """Print the CPU of the proxies for the same work, in turn."""
    bao = OpenBao(folder).start()
    stack.callback(bao.stop)
    bao.ask("POST", "transit/keys/kek", {})
    (folder / "token").write_text(bao.token, encoding="utf-8")
    broker = started_broker(folder, jars.NEWEST, first=0)
    stack.callback(broker.close)
    ways = {"kroxylicious": kroxylicious(options.java, folder, bao, broker.open, stack)}
    keys = {"use": "vault", "with": {"url": bao.url, "token": f"file:{folder / 'token'}"}}
    filters = [{"use": "encrypt", "with": {"keys": keys, "rules": [{"topics": ["*"], "key": "kek"}]}}]
    for name, words in {"kproxy": ["--no-analysis"], "analyzes": []}.items():
        proxy = Proxy(folder / name, [cluster([broker.open], filters=filters)], options=words, workers=1)
        stack.callback(proxy.close)
        proxy.start()
        ways[name] = proxy.bootstrap(), proxy.process.pid
    works = [Work(broker.open, size, codec, options.mb) for size in (1024, 65_536) for codec in ("none", "zstd")]
    bootstrap, java = ways["kroxylicious"]
    while cpu_of([java]) < options.warm:
        for work in works:
            work.cost(bootstrap, java)
    print(f"CPU ms a MB, and the multiple of Kroxylicious', which was warm after {cpu_of([java]):.0f} CPU seconds")
    for work in works:
        rounds = [{name: work.cost(*way) for name, way in ways.items()} for _ in range(options.rounds)]
        for at, what in enumerate(("produce", "fetch")):
            spent = {name: [each[name][at] for each in rounds] for name in ways}
            shown = []
            for name, found in spent.items():
                times = [ours / theirs for ours, theirs in zip(found, spent["kroxylicious"], strict=True)]
                multiple = "" if name == "kroxylicious" else spread(times, 2)
                shown.append(f"{name} {statistics.median(found) / options.mb * 1e3:5.2f} {multiple}")
            print(f"{work.size // 1024:3} KB {work.codec:5} {what:8} {'  '.join(shown)}", flush=True)


def kroxylicious(java: str, folder: Path, bao: OpenBao, broker: str, stack: ExitStack) -> tuple[str, int]:
    """Start it; returns its address and process."""
    kept = jars.folder_of(f"kroxylicious-{KROXYLICIOUS}")
    if not kept.is_dir():
        jars.fetch(kept, [("io.kroxylicious", module, KROXYLICIOUS) for module in MODULES])
    listen = f"127.0.0.1:{free_ports(12)}"
    file = folder / "kroxylicious.yaml"
    file.write_text(CONFIGURATION.format(bao=bao.url, token=bao.token, broker=broker, listen=listen), encoding="utf-8")
    main = str(Path(__file__).with_name("Kroxylicious.java"))
    process = spawn([java, "-Xmx1g", "-cp", f"{kept}/*", main, str(file)], folder / "kroxylicious.log")
    stack.callback(stop, process)
    eventually(lambda: metadata(listen), patience=120, what="Kroxylicious answers")
    return listen, process.pid


class Work:
    """Records that a client writes through a proxy to a topic of their own, with all acknowledgements, and reads again."""

    def __init__(self, broker: str, size: int, codec: str, megabytes: int) -> None:
        self._broker = broker
        self.size = size
        self.codec = codec
        self._count = megabytes * SIZE // size
        self._value = "".join(WORDS * (size // 6000 + 2)).encode()[:size]

    def cost(self, bootstrap: str, proxy: int) -> tuple[float, float]:
        """CPU seconds of a process and its children to write, and to read. Raises AssertionError if a record is missing."""
        pids, topic = list(children(proxy)), uuid.uuid4().hex
        create_topic(self._broker, topic, [[0]])
        batches = {"linger.ms": 20, "batch.size": 900_000, "compression.type": self.codec}
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **batches})
        start = cpu_of(pids)
        for at in range(self._count):
            while True:
                try:
                    producer.produce(topic, self._value, key=b"k%d" % at)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(120) == 0
        written = cpu_of(pids)
        assert sum(value == self._value for value in self._read(bootstrap, topic)) == self._count
        spent = written - start, cpu_of(pids) - written
        assert next(self._read(self._broker, topic)) != self._value
        return spent

    def _read(self, bootstrap: str, topic: str) -> Iterator[bytes | None]:
        """Yield the values of all records, or as many as come within two minutes."""
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        left, end = self._count, time.monotonic() + 120
        try:
            while left and time.monotonic() < end:
                found = consumer.consume(1_000, 1.0)
                yield from (record.value() for record in found if record.error() is None)
                left -= len(found)
        finally:
            consumer.close()


if __name__ == "__main__":
    main()
