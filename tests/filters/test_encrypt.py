"""Values encrypted on their way to brokers, and decrypted on their way back, by frames of clients and brokers."""

import os
import random
import threading
import time
from base64 import b64encode
from typing import Any

import pytest
import zstandard

from kproxy.encryption import data_keys
from kproxy.encryption.batches import CannotDecrypt, ValueReader, decrypt_batch
from kproxy.encryption.services import loading
from kproxy.encryption.services.contract import DataKey, KeyDestroyed, KeyRefused, KeyServiceAway, KeyServiceError
from kproxy.errors import UsageError
from kproxy.filters import encrypt
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, Close, Direction, Outcome, RequestFacts, Send, Want
from kproxy.filters.encrypt import LOG_AGAIN_S, Encrypt
from kproxy.filters.loading import load_filter, misplaced
from kproxy.filters.passage import Passage
from kproxy.protocol import message, read_request_header
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.records import Codec, Record, read_batches
from kproxy.protocol.records.compression import compress
from kproxy.protocol.records.editing import RecordBatch, read_records, with_header_of, write_batches
from tests.support.encryption import GivenKeys, GivenService, decrypted, decrypted_key, encrypted, parts_of
from tests.support.filtering import Bench, CallingRuntime
from tests.support.messages import answer_frame, answer_in, make, request_frame, request_in, response_frame

VALUES = [b"a canary", None, b""]
RULES = [{"topics": ["orders*"], "key": "kek-{topic}"}]


class WaitingRuntime(CallingRuntime):
    """A CallingRuntime in which threads go on while a filter waits."""

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        time.sleep(0.01)


class Encrypting(Bench):
    """The filter in a chain, in front of a broker of which only the stored records matter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")
        self.service = GivenService.keys = GivenKeys()
        options = {"keys": {"use": "given"}, "rules": RULES, **options}
        super().__init__(load_filter("encrypt", options), runtime=WaitingRuntime())

    def produce(self, *topics: str, records: bytes | None = None, index: int = 3, **values: Any) -> Outcome:
        return super().produce(*topics, records=stored(VALUES) if records is None else records, index=index, **values)

    def written(self, topic: str = "orders") -> bytes:
        """The records that a broker gets."""
        outcome = self.produce(topic)
        assert isinstance(outcome, Send)
        return records_in(outcome.frame)

    def fetch(self, records: bytes | None, topic: str = "orders", version: int = 12) -> Any:
        return super().fetch(records, topic, version)


def stored(values: list[bytes | None], **batch: Any) -> bytes:
    records = [Record(offset=at, timestamp=at, key=b"k", value=value) for at, value in enumerate(values)]
    return write_batches([RecordBatch(records, **batch)])


def values_in(records: bytes) -> list[bytes | None]:
    return [record.value for batch in read_records(records) for record in batch.records]


def records_in(frame: bytes) -> bytes:
    sent = request_in(frame)
    records: bytes = sent.topic_data[0].partition_data[0].records
    return records


def errors_in(outcome: Outcome) -> dict[str, tuple[int, str | None]]:
    assert isinstance(outcome, Answer | Send)
    answer = answer_in(0, 9, outcome.frame)
    return {
        topic.name: (partition.error_code, partition.error_message)
        for topic in answer.responses
        for partition in topic.partition_responses
    }


def test_the_broker_gets_writtenvalues_and_consumers_get_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch)
    written = bench.written()
    assert b"canary" not in written
    (data_key,) = bench.service.plain.values()
    first, none, last = values_in(written)
    assert (decrypted(first or b"", data_key, b"k"), none, decrypted(last or b"", data_key, b"k")) == tuple(VALUES)
    assert parts_of(first or b"")["key"] == "kek-orders"
    for version in (4, 12):
        assert values_in(bench.fetch(written, version=version).records) == VALUES
    assert bench.service.calls == [("new", "kek-orders")]
    assert bench.counted() == {}


@pytest.mark.parametrize("is_flexible", [False, True])
def test_all_bytes_around_the_records_stay_as_they_came(monkeypatch: pytest.MonkeyPatch, is_flexible: bool) -> None:
    bench = Encrypting(monkeypatch)
    bench.written()  # the data key is known from now on
    monkeypatch.setattr(Passage, "_decoded", None)  # whatever decodes a frame fails
    large = stored([b"v" * 16_000])  # its size takes two bytes, and three when it is encrypted
    plain = [[stored(VALUES) + stored(VALUES, codec=Codec.ZSTD), large], [b"", stored(VALUES)], [large]]
    names = ["orders", "orders", "other"]
    unknown = b"\1\x63\3abc"  # a tagged field that no version has

    def framed(frame: bytes) -> bytes:
        return (len(frame) + 1).to_bytes(4, "big") + frame[4:-1] + unknown if is_flexible else frame

    def request(fields: list[list[bytes]]) -> bytes:
        topics = []
        for name, records in zip(names, fields, strict=True):
            data = [{"index": 3, "records": one} for one in records]
            topics.append({"name": name, "partition_data": data})
        value = make("ProduceRequest", acks=-1, transactional_id="t" * 9, topic_data=topics)
        return framed(request_frame("ProduceRequest", 9 if is_flexible else 8, value))

    def response(fields: list[list[bytes]]) -> bytes:
        version, topics = 12 if is_flexible else 11, []
        for name, records in zip(names, fields, strict=True):
            given = [{"high_watermark": 9, "records": one} for one in records]
            topics.append({"topic": name, "partitions": given})
        body = message("FetchResponse").encode(version, make("FetchResponse", throttle_time_ms=5, responses=topics))
        return framed(response_frame(1, version, body))

    sent = bench.send(request(plain))
    assert isinstance(sent, Send)
    header = read_request_header(sent.frame, 4).size
    start, size = 4 + header, len(sent.frame) - len(unknown) if is_flexible else len(sent.frame)
    body = sent.frame[start:size] + (b"\0" if is_flexible else b"")
    answer: Any = message("ProduceRequest").decode(9 if is_flexible else 8, body)
    written = [[one.records for one in topic.partition_data] for topic in answer.topic_data]
    assert written[0] != plain[0]
    assert written[1][1] != plain[1][1]
    assert written[2] == plain[2]
    assert sent.frame == request(written)
    cut = [[one + large[:900] if one and at < 2 else one for one in fields] for at, fields in enumerate(written)]
    given = bench.answer(RequestFacts(1, 12 if is_flexible else 11, 7), response(cut))
    assert isinstance(given, Send)
    assert given.frame == response(plain)


def test_headers_are_writtenwhere_a_rule_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch, rules=[{**RULES[0], "headers": ["card-*"], "plain": "fail"}])
    headers = [("card-number", b"a canary"), ("trace", b"00-1"), ("card-holder", None)]
    outcome = bench.produce("orders", records=write_batches([RecordBatch([Record(value=b"v", headers=headers)])]))
    assert isinstance(outcome, Send)
    written = records_in(outcome.frame)
    assert b"canary" not in written and b"00-1" in written
    for rule in (RULES[0], {**RULES[0], "headers": ["other"]}):
        reader = Encrypting(monkeypatch, rules=[rule])
        reader.service.plain.update(bench.service.plain)
        ((batch),) = read_records(reader.fetch(written).records)
        assert batch.records[0].headers == headers
    (batch,) = read_records(written)
    batch.records[0].headers = headers
    assert (
        bench.fetch(write_batches([batch])).error_code == ErrorCode.CORRUPT_MESSAGE
    )  # the value is encrypted, the header not


def keyed(*keys: bytes | None, value: bytes | None = b"v") -> bytes:
    return write_batches([RecordBatch([Record(offset=at, key=key, value=value) for at, key in enumerate(keys)])])


def keys_in(records: bytes) -> list[bytes | None]:
    return [record.key for batch in read_records(records) for record in batch.records]


def rule_for_keys(made: DataKey, by: str = "kek-k", **rule: Any) -> dict[str, Any]:
    return {**RULES[0], "record_keys": {"key": by, "wrapped": b64encode(made.wrapped).decode()}, **rule}


def test_equal_record_keys_are_stored_as_equal_bytes_by_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    service = GivenKeys()
    made = service.new_data_key("kek-k")
    keys = [b"a canary", None, b"", b"a canary"]

    def worker(topic: str = "orders", *, fetched: bytes = b"", **rule: Any) -> tuple[bytes, list[bytes | None]]:
        """What a new process writes, and what it reads."""
        bench = Encrypting(monkeypatch, rules=[rule_for_keys(made, **rule)])
        bench.service.plain = service.plain
        outcome = bench.produce(topic, records=keyed(*keys))
        assert isinstance(outcome, Send)
        written = records_in(outcome.frame)
        return written, keys_in(bench.fetch(fetched or written, topic).records)

    stored, read = worker()
    first = keys_in(stored)
    assert read == keys and b"canary" not in stored and first[1] is None and first[0] == first[3] != first[2]
    assert decrypted_key(first[0] or b"", made.plain) == b"a canary"
    assert keys_in(worker()[0]) == keys_in(worker(writes="encrypted", key="another", other_keys=["kek-*"])[0]) == first
    assert (first[0] or b"")[-24:] not in worker("orders-2")[0]
    again = rule_for_keys(service.new_data_key("kek-n"), "kek-n", other_keys=["kek-k"])
    rekeyed, read = worker(fetched=stored, **again)
    assert read == keys and set(keys_in(rekeyed)) & set(first) == {None}
    assert worker(fetched=stored, record_keys=None, other_keys=["kek-k"])[1] == keys
    assert worker(fetched=stored, writes="plain")[1] == keys
    strict = Encrypting(monkeypatch, rules=[rule_for_keys(made, plain="fail")])
    strict.service.plain = service.plain
    assert keys_in(strict.fetch(stored).records) == keys
    tombstones = keyed(b"k", value=None)
    assert strict.fetch(tombstones).error_code == ErrorCode.CORRUPT_MESSAGE
    assert "the record key is not encrypted" in strict.runtime.warnings[0][1]


@pytest.mark.parametrize("key", [None, b"", b"a key"])
def test_what_a_record_grows_by_is_known_before(monkeypatch: pytest.MonkeyPatch, key: bytes | None) -> None:
    service = GivenKeys()
    bench = Encrypting(monkeypatch, rules=[rule_for_keys(service.new_data_key("kek-k"), headers=["s"])])
    bench.service.plain.update(service.plain)
    before = Record(key=key, value=b"v", headers=[("s", b"x"), ("t", b"y"), ("s", b"")])
    outcome = bench.produce("orders", records=write_batches([RecordBatch([before])]))
    assert isinstance(outcome, Send)
    (after,) = read_records(records_in(outcome.frame))[0].records
    (grows,) = (one.growth("orders") for one in bench.chain.filters if isinstance(one, Encrypt))

    def size(record: Record) -> int:
        return sum(len(part or b"") for part in (record.key, record.value, *(value for _, value in record.headers)))

    assert grows is not None and grows(before) == size(after) - size(before)


def test_without_the_data_key_of_record_keys_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GivenKeys().new_data_key("kek-k")
    bench = Encrypting(monkeypatch, rules=[rule_for_keys(made)])  # whose key service has not wrapped it
    why = "the key has not wrapped this data key"
    assert errors_in(bench.produce("orders")) == {"orders": (ErrorCode.POLICY_VIOLATION, why)}
    bench = Encrypting(monkeypatch, rules=[rule_for_keys(made)], wait=0.2)
    over, asked_too = threading.Event(), threading.Event()
    new_data_key = bench.service.new_data_key
    monkeypatch.setattr(bench.service, "new_data_key", lambda name: asked_too.wait(9) and new_data_key(name))
    monkeypatch.setattr(bench.service, "unwrap", lambda *asked: asked_too.set() or (over.wait() and made.plain))
    assert errors_in(bench.produce("orders"))["orders"][0] == ErrorCode.NOT_ENOUGH_REPLICAS
    over.set()
    while isinstance(bench.produce("orders"), Answer):
        bench.runtime.at += 1
    assert decrypted_key(keys_in(bench.written())[0] or b"", made.plain) == b"k"


def test_topics_that_no_rule_names_leave_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch)
    outcome = bench.produce("bills")
    assert isinstance(outcome, Send)
    assert outcome.frame is bench.frame
    written = bench.written()
    bench.fetch(written, "bills")
    assert bench.given is bench.frame
    assert values_in(bench.fetch(stored(VALUES)).records) == VALUES  # plain records of an encrypted topic
    assert bench.given is bench.frame


def test_another_worker_has_the_data_key_unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = (writer := Encrypting(monkeypatch)).written()
    reader = Encrypting(monkeypatch)
    reader.service.plain.update(writer.service.plain)
    for _ in range(3):
        assert values_in(reader.fetch(written).records) == VALUES
    assert reader.service.calls == [("unwrap", "kek-orders")]


@pytest.mark.parametrize(
    ("error", "produced", "fetched", "kind"),
    [
        (
            KeyServiceAway("it is slow"),
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.KAFKA_STORAGE_ERROR,
            "key service away",
        ),
        (KeyServiceError("odd"), ErrorCode.POLICY_VIOLATION, ErrorCode.CORRUPT_MESSAGE, "damaged"),
        (KeyRefused("no right"), ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "key refused"),
        (KeyDestroyed("it is gone"), ErrorCode.POLICY_VIOLATION, ErrorCode.CORRUPT_MESSAGE, "key destroyed"),
    ],
)
def test_without_the_key_nothing_is_written_and_nothing_read(
    monkeypatch: pytest.MonkeyPatch, error: KeyServiceError, produced: int, fetched: int, kind: str
) -> None:
    written = Encrypting(monkeypatch).written()
    bench = Encrypting(monkeypatch)
    bench.service.error = error
    assert errors_in(bench.produce("orders")) == {"orders": (produced, str(error))}
    partition = bench.fetch(written)
    assert (partition.error_code, partition.records) == (fetched, b"")
    outage = {("outage", "key service away"): 1} if isinstance(error, KeyServiceAway) else {}
    assert bench.counted() == {("refused", ErrorCode(produced).name): 1, ("failed", kind): 1} | outage
    assert any("takes the key 'kek-orders'" in reason and "offset 0" in reason for _, reason in bench.runtime.warnings)
    outcome = bench.produce("bills", "orders")  # the other partition goes on
    assert isinstance(outcome, Send)
    assert b"canary" in outcome.frame
    topic = {"name": "bills", "partition_responses": [{"index": 3, "base_offset": 41}]}
    assert outcome.request is not None
    answered = bench.answer(outcome.request, answer_frame("ProduceResponse", 9, responses=[topic]))
    assert errors_in(answered) == {"bills": (0, None), "orders": (produced, str(error))}


def test_a_key_service_that_does_not_answer_holds_a_request_no_longer_than_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Encrypting(monkeypatch, wait=0.2)
    over = threading.Event()
    monkeypatch.setattr(bench.service, "new_data_key", lambda name: over.wait())
    before = bench.runtime.at
    assert errors_in(bench.produce("orders"))["orders"][0] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert 0.2 <= bench.runtime.at - before < 0.25
    over.set()


def test_frames_with_one_topic_that_no_rule_names_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [*RULES, {"topics": ["was"], "key": "kek", "writes": "plain"}]
    bench = Encrypting(monkeypatch, rules=rules)
    chain = bench.chain
    assert chain.looks_at_topics(Direction.REQUEST, 0, 9) and chain.looks_at_topics(Direction.RESPONSE, 1, 12)
    headers = load_filter("headers", {"fixed": {"a": "b"}})
    assert not Chain([headers, load_filter("encrypt", {"keys": {"use": "given"}, "rules": RULES})]).looks_at_topics(
        Direction.REQUEST, 0, 9
    )
    wanted = {}
    for topics in (("orders",), ("others",), ("was",), ("others", "orders"), ("others", "more")):
        bench.produce(*topics)
        wanted[topics] = chain.wanted_of(Direction.REQUEST, 0, 9, bench.frame[:200])
    held = {topics for topics, want in wanted.items() if want is Want.HOLD}
    assert held == {
        ("orders",),
        ("was",),
        ("others", "orders"),
        ("others", "more"),
    }  # of several, the last is far behind
    assert wanted["others",] is Want.PASS
    for topic, want in {"orders": Want.HOLD, "others": Want.PASS, "was": Want.HOLD}.items():
        bench.fetch(stored([b"v"]), topic)
        assert chain.wanted_of(Direction.RESPONSE, 1, 12, bench.frame) is want
    bench.fetch(stored([b"v"]), "AAAAAAAAAAAAAAAAAAAAAQ", 16)  # an id whose name is not known
    assert chain.wanted_of(Direction.RESPONSE, 1, 16, bench.frame) is Want.HOLD


def test_a_damaged_value_stops_its_partition_behind_the_batches_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch)
    written = bench.written()
    (batch,) = read_records(written)
    batch.base_offset, batch.last_offset = 3, None
    for record in batch.records:
        record.offset += 3
    value = batch.records[0].value or b""
    batch.records[0].value = value[:-1] + bytes((value[-1] ^ 1,))
    damaged = write_batches([batch])
    partition = bench.fetch(written + damaged)
    assert (partition.error_code, values_in(partition.records)) == (0, VALUES)
    partition = bench.fetch(damaged)
    assert (partition.error_code, partition.records) == (ErrorCode.CORRUPT_MESSAGE, b"")
    assert bench.counted() == {("failed", "damaged"): 2}
    assert "partition 3, offset 3" in bench.runtime.warnings[0][1]

    lenient = Encrypting(monkeypatch, rules=[{**RULES[0], "unreadable": "skip", "plain": "skip"}])
    lenient.service.plain.update(bench.service.plain)
    assert values_in(lenient.fetch(written + damaged + stored([b"plain", None])).records) == [*VALUES, None, b"", None]
    assert lenient.counted() == {("skipped", "damaged"): 1, ("skipped", "plain"): 1}


def test_a_topic_whose_rule_says_plain_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written = (writer := Encrypting(monkeypatch)).written()
    bench = Encrypting(monkeypatch, rules=[{**RULES[0], "writes": "plain"}])
    bench.service.plain.update(writer.service.plain)
    assert isinstance(outcome := bench.produce("orders"), Send)
    assert outcome.frame is bench.frame
    assert values_in(bench.fetch(written + stored([b"new"])).records) == [*VALUES, b"new"]


def test_mirrored_records_are_read_where_a_rule_names_their_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"topics": ["us.orders"], "key": "x", "other_keys": ["kek-*"], "written_to": ["orders"]}
    bench = Encrypting(monkeypatch, rules=[rule, *RULES, {"topics": ["eu.orders"], "key": "x"}])
    written = bench.written()
    assert values_in(bench.fetch(written, "us.orders").records) == VALUES
    assert bench.fetch(written, "eu.orders").error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_rule_opens_what_its_own_key_has_wrapped_and_those_it_had_before(monkeypatch: pytest.MonkeyPatch) -> None:
    by_cluster = {"topics": ["orders"], "key": "kek-{cluster}-{topic}", "compress": "zstd"}
    bench = Encrypting(monkeypatch, rules=[by_cluster])
    written = bench.written()
    assert bench.service.calls == [("new", f"kek-{bench.runtime.cluster}-orders")]
    plain = bench.service.plain
    renamed = {**by_cluster, "key": "kek-new"}
    for rule, count in ((by_cluster, 3), (renamed, 0), ({**renamed, "other_keys": ["kek-?*-orders"]}, 3)):
        bench = Encrypting(monkeypatch, rules=[rule])
        bench.service.plain.update(plain)
        partition = bench.fetch(written)
        assert len(values_in(partition.records)) == count
        assert partition.error_code == (0 if count else ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_broken_batches_are_refused_and_topics_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch)
    control = bench.produce("orders", records=stored(VALUES, attributes=0x20))
    assert errors_in(control)["orders"][0] == ErrorCode.INVALID_RECORD, "as brokers do: it would stay plain"
    whole = stored(VALUES)
    for records in (whole[:-1], whole[:-1] + b"\x7f", whole + b"rest"):
        assert errors_in(bench.produce("orders", records=records))["orders"][0] == ErrorCode.CORRUPT_MESSAGE
    written = bench.written()
    for topic_id in ("AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAA"):
        data = [{"topic_id": topic_id, "partition_data": [{"index": 1, "records": whole}]}]
        outcome = bench.ask("ProduceRequest", 13, acks=-1, topic_data=data)
        assert isinstance(outcome, Answer)
        (topic,) = answer_in(0, 13, outcome.frame).responses
        assert (topic.topic_id, topic.partition_responses[0].error_code) == (topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        partition = bench.fetch(written, topic_id, 13)
        assert (partition.error_code, partition.records) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")


@pytest.mark.parametrize("size", [200, 8_600, 900_000])
def test_compressed_values_open_in_whatever_batch_a_mirror_puts_them(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    bench = Encrypting(monkeypatch, rules=[{**RULES[0], "compress": "zstd"}])
    outcome = bench.produce("orders", records=stored([bytes(size)]))
    assert isinstance(outcome, Send)
    (written,) = values_in(records_in(outcome.frame))
    assert written is not None
    count = (1 << 20) // (len(written) + 12)
    mirrored = stored([written] * count)
    assert len(mirrored) <= 1_048_588  # message.max.bytes
    assert values_in(bench.fetch(mirrored).records) == [bytes(size)] * count


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(("size", "count"), [(50_000, 8), (50_000, 30), (1, 2_000)])
def test_records_that_take_long_are_changed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, codec: Codec, size: int, count: int
) -> None:
    bench, calls = Encrypting(monkeypatch), []
    in_thread = bench.runtime.in_thread
    monkeypatch.setattr(bench.runtime, "in_thread", lambda work: calls.append(work) or in_thread(work))
    bench.written()
    calls.clear()
    values: list[bytes | None] = [os.urandom(size) for _ in range(count)]
    outcome = bench.produce("orders", records=stored(values, codec=codec))
    assert isinstance(outcome, Send)
    assert bool(calls) == (count > 8 or codec is Codec.GZIP)
    calls.clear()
    assert values_in(bench.fetch(records_in(outcome.frame)).records) == values
    assert bool(calls) == (count > 8 or codec is Codec.GZIP)


def test_records_that_hide_how_long_they_take_are_changed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count below 0 hides those of other batches; frames behind the first one, what zstd decompresses to."""
    bench, calls = Encrypting(monkeypatch), []
    in_thread = bench.runtime.in_thread
    monkeypatch.setattr(bench.runtime, "in_thread", lambda work: calls.append(work) or in_thread(work))
    bench.written()
    below = bytearray(stored([b"a"]))
    below[57:61] = (-1_000_000).to_bytes(4, "big", signed=True)
    two = zstandard.compress(b"") + zstandard.compress(bytes(10_000_000))
    for records in (
        stored([b"a"] * 2_000) + bytes(below),
        with_header_of(stored([b"a"], codec=Codec.ZSTD), two),
    ):
        calls.clear()
        bench.produce("orders", records=records)
        assert calls


@pytest.mark.parametrize(("codec", "growth"), [(Codec.NONE, 60_000), (Codec.LZ4, 30_000)])
def test_records_that_would_grow_too_much_are_refused_before_they_do(
    monkeypatch: pytest.MonkeyPatch, codec: Codec, growth: int
) -> None:
    """The rest of the request is written, and what the producer splits after that fits."""
    monkeypatch.setattr(encrypt, "MOST_GROWTH", growth)
    bench = Encrypting(monkeypatch)
    values: list[bytes | None] = [b"v"] * 1_600
    partitions = [
        {"index": at, "records": stored(values, codec=codec) if at == 1 else stored(VALUES)} for at in (0, 1, 2)
    ]
    outcome = bench.ask("ProduceRequest", 9, acks=-1, topic_data=[{"name": "orders", "partition_data": partitions}])
    assert isinstance(outcome, Send) and outcome.request is not None
    written = request_in(outcome.frame).topic_data[0].partition_data
    assert [partition.index for partition in written] == [0, 2]
    assert values_in(bench.fetch(written[1].records).records) == VALUES
    said = answer_frame("ProduceResponse", 9, responses=[])
    assert errors_in(bench.answer(outcome.request, said))["orders"][0] == ErrorCode.MESSAGE_TOO_LARGE
    assert bench.counted() == {("refused", "MESSAGE_TOO_LARGE"): 1}
    half = bench.produce("orders", records=stored(values[:400], codec=codec))
    assert isinstance(half, Send) and len(values_in(records_in(half.frame))) == 400


@pytest.mark.parametrize("records", [400, 2_000])  # at once, and in a thread
def test_a_request_does_not_grow_beyond_the_largest_frame(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    bench = Encrypting(monkeypatch)
    bench.chain = Chain([bench.filter], runtime=bench.runtime, most_frame_size=40_000)
    values: list[bytes | None] = [b"v"] * records
    outcome = bench.produce("orders", records=stored(values))
    assert isinstance(outcome, Answer)
    error, sentence = errors_in(outcome)["orders"]
    assert error == ErrorCode.MESSAGE_TOO_LARGE and "beyond limits.frame_size" in (sentence or "")
    assert isinstance(bench.produce("orders", records=stored(values[:100])), Send)


@pytest.mark.parametrize("size", [10, 5_000_000])
def test_frames_of_any_size_are_edited_and_those_that_are_broken_go_no_further(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Large ones in a thread; some software sends bytes behind its message."""
    bench = Encrypting(monkeypatch)
    bench.chain = Chain([bench.filter], runtime=bench.runtime, in_thread=bench.runtime.in_thread)
    value = b"a canary" + bytes(size)
    control = stored([value], attributes=0x20)
    partitions = [{"index": at, "records": control if at == 1 else stored([value])} for at in (0, 1, 2)]
    topics = [{"name": "orders", "partition_data": partitions}]
    outcome = bench.ask("ProduceRequest", 9, acks=-1, topic_data=topics)
    assert isinstance(outcome, Send) and outcome.request is not None and b"canary" not in outcome.frame
    written = request_in(outcome.frame).topic_data[0].partition_data
    assert [partition.index for partition in written] == [0, 2]
    told = answer_frame("ProduceResponse", 9, responses=[])
    assert errors_in(bench.answer(outcome.request, told))["orders"][0] == ErrorCode.INVALID_RECORD
    damaged = bytearray(written[1].records)
    damaged[70] ^= 1
    for records, values, error in ((written[1].records, [value], 0), (bytes(damaged), [], ErrorCode.CORRUPT_MESSAGE)):
        partition = bench.fetch(records)
        assert (values_in(partition.records), partition.error_code) == (values, error)
    topics[0]["partition_data"] = partitions[::2]
    frame = request_frame("ProduceRequest", 9, acks=-1, topic_data=topics)
    behind = bench.send((len(frame) - 1).to_bytes(4, "big") + frame[4:] + b"end")
    assert isinstance(behind, Send) and behind.frame.endswith(b"end") and b"canary" not in behind.frame
    cut = bench.send((len(frame) - 14).to_bytes(4, "big") + frame[4:-10])
    assert isinstance(cut, Answer | Close)


def test_a_response_that_would_grow_too_much_ends_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """No consumer is stuck: what was left out, it asks for."""
    bench = Encrypting(monkeypatch, rules=[{**RULES[0], "compress": "zstd"}])
    text = os.urandom(960)
    outcome = bench.produce("orders", records=stored([text * 30]))
    assert isinstance(outcome, Send)
    monkeypatch.setattr(encrypt, "MOST_GROWTH", 60_000)
    (value,) = values_in(records_in(outcome.frame))
    batches = [write_batches([RecordBatch([Record(offset=at, key=b"k", value=value)])]) for at in range(7)]
    got, rounds = 0, 0
    while got < len(batches):
        partition = bench.fetch(b"".join(batches[got:]))
        given = values_in(partition.records)
        assert (partition.error_code, set(given)) == (0, {text * 30})
        got, rounds = got + len(given), rounds + 1
        assert len(partition.records) < 100_000
    assert rounds > 2


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused_and_not_given_out(monkeypatch: pytest.MonkeyPatch, codec: Codec) -> None:
    bench = Encrypting(monkeypatch)
    bomb = with_header_of(stored([b"v"], codec=codec), compress(codec, bytes(70 << 20)))
    assert errors_in(bench.produce("orders", records=bomb))["orders"][0] == ErrorCode.MESSAGE_TOO_LARGE
    good = bench.written()
    for records, values in ((bomb, []), (good + bomb, VALUES)):
        partition = bench.fetch(records)
        assert (values_in(partition.records), partition.error_code) == (
            values,
            0 if values else ErrorCode.CORRUPT_MESSAGE,
        )
    assert bench.counted() == {("refused", "MESSAGE_TOO_LARGE"): 1, ("failed", "damaged"): 2}


def test_records_are_decrypted_in_their_frame_as_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, in a thread, and each batch alone, whatever its format, codec, damage and the policies."""
    chance = random.Random(5)
    kinds = set()
    for _ in range(60):
        rule = {**RULES[0], **{name: chance.choice(["fail", "skip", "pass"]) for name in ("plain", "unreadable")}}
        bench = Encrypting(monkeypatch, rules=[rule])
        about = {"name": "kek-orders", "topic": "orders", "nonce": bytes(12)}
        good = encrypted(b"a canary", bench.service.new_data_key("kek-orders"), key=b"k", **about)
        flipped = bytearray(good)
        flipped[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
        data = b""
        for _ in range(chance.randrange(1, 5)):
            magic = chance.choice([0, 1, 2, 2, 2])
            codec = chance.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD][: 5 if magic == 2 else 4])
            values = chance.choices([good, b"plain", None, bytes(flipped)], [9, 2, 1, 1], k=chance.randrange(1, 5))
            data += stored(values, magic=magic, codec=codec)
        data += data[: chance.choice([0, 0, 0, 1, 40])]  # brokers cut what does not fit
        got = [bench.fetch(data) for _ in range(2)]  # the first waits for the key
        with monkeypatch.context() as patched:
            patched.setattr(encrypt, "AT_ONCE", -1)
            got.append(bench.fetch(data))
        expected, error = alone(bench.filter, data)
        kinds.add((rule["plain"], rule["unreadable"], error))
        assert [(one.records, one.error_code) for one in got] == [(expected, error)] * 3
        if rule["unreadable"] == "fail" and rule["plain"] == "fail":
            assert set(values_in(expected)) <= {b"a canary", None}
    assert len(kinds) > 9


def alone(filter_: Encrypt, data: bytes) -> tuple[bytes, int]:
    """What becomes of records whose batches are decrypted one by one, and the error of their partition."""
    rule = filter_.options.rules[0]
    parts: list[bytes] = []
    for batch in read_batches(data):
        try:
            part = decrypt_batch(batch, filter_.reader("orders", rule), rule.plain, rule.unreadable, lambda *_: None)
        except CannotDecrypt:
            part = None
        if part is None:
            return b"".join(parts), 0 if parts else ErrorCode.CORRUPT_MESSAGE
        parts.append(part)
    return b"".join(parts), 0


def test_nothing_is_skipped_while_the_key_service_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Encrypting(monkeypatch).written()
    bench = Encrypting(monkeypatch, rules=[{**RULES[0], "unreadable": "skip"}])
    bench.service.error = KeyServiceAway("it is slow")
    assert bench.fetch(written).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_reload_while_the_key_service_is_away_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch)
    written, before = bench.written(), bench.chain
    bench.service.error = KeyServiceAway("it is away")
    for is_undone in (True, False):
        bench.use(load_filter("encrypt", {"keys": {"use": "given"}, "rules": [{**RULES[0], "compress": "zstd"}]}))
        if is_undone:  # as another filter does not start
            bench.chain.stop()
    again = bench.written()
    before.stop()
    assert values_in(bench.fetch(written).records) == values_in(bench.fetch(again).records) == VALUES
    one, other = (parts_of(values_in(records)[2] or b"") for records in (written, again))
    assert one["wrapped"] == other["wrapped"] and one["nonce"][4:] < other["nonce"][4:], "no nonce is used twice"
    assert bench.service.calls == [("new", "kek-orders")]


def test_an_outage_is_logged_though_known_data_keys_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch, data_key_age=60)
    (keys,) = (one._keys for one in bench.chain.filters if isinstance(one, Encrypt))
    bench.written()
    bench.service.error = KeyServiceAway("it is slow")
    for seconds in (61, 0.5, 0.25):  # it is asked once
        bench.runtime.at += seconds
        bench.written()
        while not keys.outage:  # the service answers in a thread
            time.sleep(0.001)
    bench.service.error = None
    bench.runtime.at += 28.25
    bench.written()
    while keys.outage:
        time.sleep(0.001)
    bench.written()
    assert bench.counted() == {("outage", "key service away"): 1}
    assert bench.runtime.warnings == [
        ("encrypt: the key service is away", "it is slow; data keys in use go on for at most 3600 s"),
        ("encrypt: the key service answers again", "it was away for 29 s"),
    ]


@pytest.mark.parametrize("is_skipped", [True, False])
def test_a_response_may_take_more_data_keys_than_are_kept(monkeypatch: pytest.MonkeyPatch, is_skipped: bool) -> None:
    """Whether they are destroyed, which is asked 8 at a time, or more than fit into the cache."""
    monkeypatch.setattr(data_keys, "MOST_KEYS", 20)
    bench = Encrypting(monkeypatch, rules=[{**RULES[0], "unreadable": "skip"}], wait=60)
    keys = [bench.service.new_data_key("kek-orders") for _ in range(60)]
    fields = [encrypted(b"v", key, key=b"k", name="kek-orders", topic="orders", nonce=bytes(12)) for key in keys]
    batches = b"".join(stored([field, b"plain"]) for field in fields)
    if is_skipped:
        bench.service.error = KeyDestroyed("it is gone")
    values = values_in(bench.fetch(batches).records)
    assert values == ([b"plain"] if is_skipped else [b"v", b"plain"]) * 60
    values = values_in(bench.fetch(stored([*fields, b"plain"])).records)  # in one batch
    assert values == ([] if is_skipped else [b"v"] * 60) + [b"plain"]


@pytest.mark.parametrize("policy", ["fail", "skip", "pass"])
def test_a_batch_with_thousands_of_data_keys_costs_the_key_service_few_answers(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    bench = Encrypting(monkeypatch, rules=[{**RULES[0], "unreadable": policy}], wait=60)
    made = [DataKey(bytes(32), b"made up %d" % number) for number in range(3_000)]
    fields = [encrypted(b"v", key, key=b"k", name="kek-orders", topic="orders", nonce=bytes(12)) for key in made]
    before = bench.service.new_data_key("kek-orders")
    known = encrypted(b"v", before, key=b"k", name="kek-orders", topic="orders", nonce=bytes(12))
    bench.service.calls.clear()
    batch = stored([known, b"plain", *fields])
    got = bench.fetch(stored([known]) + batch)
    kept = {"fail": [], "skip": [b"plain"], "pass": values_in(batch)}[policy]
    assert values_in(got.records) == [b"v", *kept]  # the same, whatever keys were known before
    assert len(bench.service.calls) < 20
    event, count = {"fail": ("failed", 1), "skip": ("skipped", 3_001), "pass": ("passed", 3_001)}[policy]
    assert bench.counted() == {(event, "damaged"): count}
    ((_, sentence),) = bench.runtime.warnings
    assert sentence.startswith("the encrypted value is damaged: its batch takes more than 1,000 data keys")


def test_a_batch_is_read_again_once_when_the_key_service_has_answered_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch, wait=60)
    keys = [bench.service.new_data_key("kek-orders") for _ in range(400)]
    fields = [encrypted(b"v", key, key=b"k", name="kek-orders", topic="orders", nonce=bytes(12)) for key in keys]
    times = []
    begin = ValueReader.begin
    monkeypatch.setattr(ValueReader, "begin", lambda *args, **more: (times.append(1), begin(*args, **more)))
    assert values_in(bench.fetch(stored([*fields])).records) == [b"v"] * 400
    assert len(times) <= 3  # at once; in a thread; with the answers


def test_a_producer_that_waits_for_nothing_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Encrypting(monkeypatch)
    bench.service.error = KeyServiceAway("it is slow")
    outcome = bench.produce("orders", acks=0)
    assert isinstance(outcome, Answer | Close)
    assert not getattr(outcome, "frame", b"")


def test_topics_that_a_client_makes_up_do_not_silence_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypt, "MOST_LOGGED", 2)
    bench = Encrypting(monkeypatch)
    bench.service.error = KeyDestroyed("it is gone")
    for number in range(4):
        bench.produce(f"orders-{number}")
    assert len(bench.runtime.warnings) == 2
    bench.runtime.at += LOG_AGAIN_S
    bench.produce("orders")
    assert [reason[:25] for _, reason in bench.runtime.warnings[2:]] == ["it is gone: topic orders,"]


def test_filters_that_read_values_stand_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")
    encrypt = load_filter("encrypt", {"keys": {"use": "given"}, "rules": RULES})
    mask = load_filter("mask", {"rules": [{"fields": ["$.email"]}]})
    assert list(misplaced([mask, encrypt])) == []
    assert list(misplaced([encrypt, mask])) == [
        (1, "mask has to be listed before encrypt: it would find encrypted values only")
    ]


def test_other_filters_see_plain_record_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    service = GivenKeys()
    made = service.new_data_key("kek-k")
    bench = Encrypting(monkeypatch, rules=[rule_for_keys(made)])
    bench.service.plain.update(service.plain)
    deny = {"rules": [{"api_name": ["Produce"], "when": 'record.key == "forbidden"'}]}
    before = [load_filter("deny", deny), load_filter("mask", {"rules": [{"fields": ["$.email"]}], "keys": True})]
    bench.use(*before, load_filter("encrypt", {"keys": {"use": "given"}, "rules": [rule_for_keys(made)]}))
    assert errors_in(bench.produce("orders", records=keyed(b"forbidden")))["orders"][0] != 0
    outcome = bench.produce("orders", records=keyed(b'{"email": "a canary"}'))
    assert isinstance(outcome, Send)
    stored = records_in(outcome.frame)
    assert decrypted_key(keys_in(stored)[0] or b"", made.plain) == b'{"email": "a canary"}'
    (key,) = keys_in(bench.fetch(stored).records)
    assert key is not None and b"email" in key and b"canary" not in key


def test_mistakes_are_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")
    for key in ("{tenant}", "{topic.__class__}", "{topic!r}", "{topic:>300}", "{", "{{topic}}"):
        with pytest.raises(UsageError, match=r"rules\[0\].key: only \{topic\} and \{cluster\} are"):
            load_filter("encrypt", {"keys": {"use": "given"}, "rules": [{"topics": ["*"], "key": key}]})
    shadowed = [{"topics": ["*-a", "orders*"], "key": "kek"}, {"topics": ["b", "orders-secret"], "key": "kek-secret"}]
    with pytest.raises(UsageError, match=r'rules\[1\].topics: rules\[0\] has "orders-secret" already'):
        load_filter("encrypt", {"keys": {"use": "given"}, "rules": shadowed})
    with pytest.raises(UsageError, match="there is no key service"):
        load_filter("encrypt", {"keys": {"use": "gives"}, "rules": RULES})
    for wrapped in ("a b", "ä", "="):
        with pytest.raises(UsageError, match=r"rules\[0\].record_keys.wrapped: this is not base 64"):
            rule = {**RULES[0], "record_keys": {"key": "kek", "wrapped": wrapped}}
            load_filter("encrypt", {"keys": {"use": "given"}, "rules": [rule]})


class Sharing:
    """Members of share groups in front of a broker with three records of "orders"; the keys of each topic are another's."""

    topic_id = "AAAAAAAAAAAAAAAAAAAAAg"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, of_keys: bool = False, **options: Any) -> None:
        service = GivenKeys()
        options = {"rules": [rule_for_keys(service.new_data_key("kek-k"))], **options} if of_keys else options
        writer = Encrypting(monkeypatch, **options)
        writer.service.plain.update(service.plain)
        self.written = writer.written()
        self.bench = Encrypting(monkeypatch, **options)
        self.bench.service.plain.update(writer.service.plain)
        self.away = {"kek-k"} if of_keys else {"kek-orders"}
        monkeypatch.setattr(self.bench.service, "_call", self._call)
        monkeypatch.setattr(Encrypt, "topic_names", {self.topic_id: "orders"})

    def _call(self, what: str, key_name: str) -> None:
        if key_name in self.away:
            raise KeyServiceAway("it is slow")

    def ask(self, group: str = "billing", *, acknowledges: bool = False, **fields: Any) -> tuple[Send, Any, float]:
        """What becomes of a request: the outcome, the message that the broker gets, and how long it waited."""
        batch = {"first_offset": 0, "last_offset": 2, "acknowledge_types": [1]}
        topic = {"topic_id": self.topic_id, "partitions": [{"acknowledgement_batches": [batch] * acknowledges}]}
        usual = {"group_id": group, "member_id": "m", "share_session_epoch": 1, "max_wait_ms": 500, "max_records": 9}
        frame = request_frame("ShareFetchRequest", 1, topics=[topic], **{**usual, **fields}, batch_size=9)
        before = self.bench.runtime.at
        outcome = self.bench.send(frame)
        assert isinstance(outcome, Send)
        sent = request_in(outcome.frame)
        return outcome, sent, self.bench.runtime.at - before

    def records(self, group: str = "billing") -> int | None:
        """How many records a member gets of those that the broker has acquired for it; None: the broker has acquired none."""
        outcome, sent, _ = self.ask(group)
        if sent.max_records == 0:
            return None
        acquired = {"first_offset": 0, "last_offset": 2, "delivery_count": 1}
        partition = {"records": self.written, "acquired_records": [acquired]}
        answer = self.bench.answered(outcome, responses=[{"topic_id": self.topic_id, "partitions": [partition]}])
        return len(values_in(answer.responses[0].partitions[0].records))


@pytest.mark.parametrize("of_keys", [False, True])
def test_a_share_group_acquires_nothing_until_the_key_service_has_answered_for_its_own_key(
    monkeypatch: pytest.MonkeyPatch, of_keys: bool
) -> None:
    """Whatever becomes of other keys meanwhile: the first delivery is lost, and no other."""
    sharing = Sharing(monkeypatch, of_keys=of_keys)
    deliveries = []
    for number in range(6):
        deliveries.append(sharing.records())
        sharing.bench.produce(f"orders-{number}")  # for this key the service answers
    assert deliveries == [0, None, None, None, None, None]
    assert sharing.records("shipping") == 0  # another group finds out by itself
    sharing.away = {"kek-orders-none"}
    if not of_keys:  # else it asks for the data key of record keys, too
        sharing.bench.produce("orders-none")
    sharing.bench.runtime.at += 2
    assert [sharing.records(group) for group in ("billing", "shipping")] == [3, 3]


def test_a_key_service_that_hangs_costs_a_share_group_one_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    sharing = Sharing(monkeypatch, wait=0.1)
    over = threading.Event()
    sharing.away.clear()
    unwrap = sharing.bench.service.unwrap
    monkeypatch.setattr(sharing.bench.service, "unwrap", lambda *key: over.wait() and unwrap(*key))
    assert [sharing.records() for _ in range(4)] == [0, None, None, None]
    over.set()
    assert sharing.records() == 3


def test_what_a_share_group_acknowledges_does_not_wait_for_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    sharing = Sharing(monkeypatch)
    assert sharing.records() == 0
    _, sent, waited = sharing.ask()
    assert sent.max_records == 0
    assert 0.5 <= waited < 0.7  # max_wait_ms, as if there were no records
    _, sent, waited = sharing.ask(acknowledges=True)
    (acknowledged,) = sent.topics[0].partitions[0].acknowledgement_batches
    assert (sent.max_records, acknowledged.last_offset, waited) == (0, 2, 0)
    _, sent, waited = sharing.ask(share_session_epoch=-1, acknowledges=True)
    assert (sent.max_records, waited) == (9, 0)  # it closes the session, and acquires nothing
