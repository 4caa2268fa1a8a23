"""What the filter encrypt costs: `python -m tests.bench.encryption [--rounds N]`.

It prints MB of values, not compressed, in a CPU second of one core, for Produce requests and Fetch responses with 1 MB of them:
the frame is decoded, its batches are opened, encrypted or decrypted, and encoded again, all in one process. *headers* is the same
work with one more header a record in place of encryption, round by round. *keyed* is the option record_keys, *packed* the option
compress.

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
"""

import statistics
import time
from base64 import b64encode
from collections.abc import Callable, Coroutine
from typing import Any

from kproxy.encryption.services import loading
from kproxy.filters.chain import Chain
from kproxy.filters.contract import RequestFacts, Send
from kproxy.filters.loading import load_filter
from kproxy.protocol import message
from kproxy.protocol.records import Codec, Record, write_batches
from kproxy.protocol.records.editing import RecordBatch
from tests.bench.measuring import options_of
from tests.support.encryption import GivenKeys, GivenService
from tests.support.filtering import CallingRuntime, connection, make, part, request_frame, response_frame

SIZE = 1 << 20
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
    data = part("ProduceRequest", "PartitionProduceData", index=0, records=records)
    topic = part("ProduceRequest", "TopicProduceData", name="orders", partition_data=[data])
    frame = request_frame("ProduceRequest", 9, make("ProduceRequest", acks=-1, topic_data=[topic]))

    def call() -> bytes:
        outcome = made(chain.on_request(connection(), frame))
        assert isinstance(outcome, Send)
        return outcome.frame

    return call


def fetch(chain: Chain, records: bytes) -> Callable[[], bytes]:
    partition = part("FetchResponse", "PartitionData", partition_index=0, records=records)
    topic = part("FetchResponse", "FetchableTopicResponse", topic="orders", partitions=[partition])
    frame = response_frame(1, 12, message("FetchResponse").encode(12, make("FetchResponse", responses=[topic])))

    def call() -> bytes:
        outcome = made(chain.on_response(connection(), RequestFacts(1, 12, 7), frame))
        assert isinstance(outcome, Send)
        return outcome.frame

    return call


def records_of(frame: bytes) -> bytes:
    sent: Any = message("ProduceRequest").decode(9, frame, frame.index(b"app") + 4)
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
    rounds = options_of(__doc__, rounds=7).rounds
    loading.BUILT_IN["given"] = "tests.support.encryption:GivenService"
    GivenService.keys = GivenKeys()
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


if __name__ == "__main__":
    main()
