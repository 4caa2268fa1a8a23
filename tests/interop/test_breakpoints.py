"""Breakpoints with Kafka's own client and librdkafka before a real broker: what a person makes of a message is what arrives."""

import hashlib
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.fault_clients.java import JavaClient
from tests.support.frames import request
from tests.support.kafka.brokers import PASSWORD, Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import Security
from tests.support.kafka.wire import address, end_offsets
from tests.support.person import Person

LONG_HOLD = 120  # seconds; in these tests nothing is to go on by itself
Started = tuple[Entrance, Person]
Starts = Callable[..., Started]

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)


@pytest.fixture
def start(single: Cluster, tmp_path: Path) -> Iterator[Starts]:
    """Starts a proxy that allows breakpoints; returns the way in and a person at its page."""
    started: list[Proxy] = []

    def start(*filters: dict[str, Any], workers: int = 1, **page: Any) -> Started:
        served = virtual_cluster(single.bootstrap("PLAIN"), filters=list(filters))
        settings = {"edits": True, "hold": LONG_HOLD, **page}
        proxy = Proxy(tmp_path / f"proxy-{len(started)}", [served], page=settings, workers=workers)
        started.append(proxy)
        proxy.start()
        return Entrance(single, proxy.bootstrap(), proxy=proxy), Person(proxy)

    yield start
    for proxy in started:
        proxy.close()


@pytest.fixture
def at_once() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def produce(bootstrap: str, topic: str, value: bytes, **settings: Any) -> KafkaError | None:
    """Produce a record with librdkafka; what its delivery report says."""
    reports: list[KafkaError | None] = []
    given = {"bootstrap.servers": bootstrap, "log_level": 0, "retry.backoff.ms": 20, **settings}
    producer = Producer(given)
    producer.produce(topic, value, key=b"k", partition=0, on_delivery=lambda error, _: reports.append(error))
    producer.flush(60)
    (report,) = reports
    return report


def values(bootstrap: str, topic: str, count: int, **settings: Any) -> list[bytes | None]:
    """The first values of partition 0, read with librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []

    def read() -> bool:
        message = consumer.poll(1.0)
        if message is not None:
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(message.value())
        return len(found) >= count

    try:
        eventually(read, patience=60, what=f"{count} records")
    finally:
        consumer.close()
    return found


def test_an_edited_request_is_what_the_broker_gets_and_an_edited_response_what_the_client_gets(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    entrance, person = start()
    single.topic(topic_name)
    person.stop_at(f'api == "Produce" && "{topic_name}" in topics')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"as the client wrote it")
    (stop,) = person.stops()
    assert (stop["api"], stop["direction"], stop["expectsResponse"]) == ("Produce", "request", True)
    person.replace(stop, "as the client wrote it", "as the person wrote it, which is longer")
    assert report.result(60) is None
    direct = single.open
    assert values(direct, topic_name, 1, **{"check.crcs": True}) == [b"as the person wrote it, which is longer"]

    person.stop_at('api == "Fetch" && response.responses.exists(r, size(r.partitions) > 0)', direction="response")
    read = at_once.submit(values, entrance.bootstrap, topic_name, 1, **{"check.crcs": True})

    def edit() -> bool:
        for one in person.stops():
            text = person.shown(one)["json"]
            if "as the person wrote it" in text:
                person.decide(one, "replace", json=text.replace("as the person wrote it", "as another person has it"))
                return True
            person.decide(one, "resume")
        return False

    eventually(edit, what="the Fetch response with the record")
    person.stop_at()
    person.done("POST", "/stops/resume-all")
    assert read.result(60) == [b"as another person has it, which is longer"]
    assert values(direct, topic_name, 1) == [b"as the person wrote it, which is longer"], "of the client alone"


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_client_sees_exactly_the_error_that_a_person_has_chosen(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor, client: str
) -> None:
    entrance, person = start()
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    if client == "java":
        java = JavaClient()
        seen = at_once.submit(java.run, "Produce", entrance.bootstrap, topic_name, "c", {"retries": "0"})
    else:
        seen = at_once.submit(produce, entrance.bootstrap, topic_name, b"v", retries=0)
    (stop,) = person.stops()
    person.decide(stop, "error", error="TOPIC_AUTHORIZATION_FAILED")
    person.stop_at()
    person.done("POST", "/stops/resume-all")
    if client == "java":
        answered = seen.result(60)
        java.close()
        assert answered.responses[0] == {"TOPIC_AUTHORIZATION_FAILED"}
        assert answered.said[0] == "TOPIC_AUTHORIZATION_FAILED"
        assert answered.said[1:] == [None, None]
    else:
        assert seen.result(60).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert end_offsets(single.open, topic_name) == {0: 2 if client == "java" else 0}


def test_what_nobody_decides_goes_on_by_itself(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    entrance, person = start(hold=1)
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"untouched")
    (stop,) = person.stops()
    assert stop["resumesMs"] - stop["stoppedMs"] == 1_000
    assert report.result(60) is None
    person.none()
    assert person.ask("POST", f"/stops/{stop['id']}", {"action": "drop"})[0] == 409
    assert values(single.open, topic_name, 1) == [b"untouched"]


def logged(entrance: Entrance, event: str) -> dict[str, Any]:
    """The event, once it is in the log."""
    assert entrance.proxy is not None
    log = entrance.proxy.log

    def found() -> dict[str, Any] | None:
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
        return next((line for line in lines if line["event"] == event), None)

    return eventually(found, what=event) or {}


@pytest.mark.long
def test_a_browser_that_is_gone_leaves_nothing_stopped(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    entrance, person = start(away=2)
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"untouched")
    person.stops()
    assert report.result(60) is None  # nobody asks any more, and the stop would last two minutes
    assert logged(entrance, "breakpoints were removed, as no page is open")["seconds"] == 2
    assert person.done("GET", "/breakpoints") == []
    assert produce(entrance.bootstrap, topic_name, b"at once") is None
    assert values(single.open, topic_name, 2) == [b"untouched", b"at once"]


@pytest.mark.long
def test_a_reload_keeps_what_is_stopped_and_one_that_allows_no_edits_lets_it_go(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    entrance, person = start()
    proxy = entrance.proxy
    assert proxy is not None
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"as the client wrote it")
    (stop,) = person.stops()
    proxy.config["timeouts"] = {"idle": 600}
    proxy.write()
    logged(entrance, "the configuration was taken")
    assert [one["id"] for one in person.stops()] == [stop["id"]]
    person.replace(stop, "as the client wrote it", "after a reload")
    assert report.result(60) is None

    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"let go")
    person.stops()
    proxy.config["page"] = {}
    proxy.write()
    assert report.result(60) is None
    assert eventually(lambda: person.ask("GET", "/stops")[0] == 404, what="the page is closed")
    assert values(single.open, topic_name, 2) == [b"after a reload", b"let go"]


@pytest.mark.long
def test_a_proxy_that_drains_lets_go_what_is_stopped(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    entrance, person = start()
    assert entrance.proxy is not None
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"answered while it drains")
    person.stops()
    assert entrance.proxy.stop(patience=60) == 0
    assert report.result(60) is None
    assert values(single.open, topic_name, 1) == [b"answered while it drains"]


@pytest.mark.long
def test_a_killed_worker_takes_its_stops_along_and_the_next_one_stops_again(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    entrance, person = start()
    assert entrance.proxy is not None
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"sent again", **{"enable.idempotence": True})
    (before,) = person.stops()
    (worker,) = entrance.proxy.workers()
    os.kill(worker, signal.SIGKILL)
    (after,) = eventually(
        lambda: [stop for stop in person.stops() if stop["id"] != before["id"]], what="a stop of the next worker"
    )
    assert person.ask("GET", f"/stops/{before['id']}")[0] == 409
    person.replace(after, "sent again", "and changed")
    assert report.result(60) is None
    assert values(single.open, topic_name, 1) == [b"and changed"]


@pytest.mark.long
def test_a_hundred_messages_are_stopped_at_once_in_two_workers(start: Starts, single: Cluster) -> None:
    entrance, person = start(workers=2)
    person.stop_at('api == "ApiVersions" && clientId == "one of many"')
    sockets = [socket.create_connection(address(entrance.bootstrap), 60) for _ in range(100)]
    for number, one in enumerate(sockets):
        one.sendall(request(18, 0, number, b"", client_id="one of many"))
    stops = person.stops(100)
    assert len({stop["id"] for stop in stops}) == 100
    assert {stop["correlationId"] for stop in stops} == set(range(100))
    workers = {stop["id"].split("-")[0] for stop in stops}
    assert workers == {"0", "1"}
    person.decide(stops[0], "close")
    assert person.done("POST", "/stops/resume-all") == {"resumed": 99}
    ends = 0
    for number, one in enumerate(sockets):
        with one:
            header = one.recv(8, socket.MSG_WAITALL)
            if number == stops[0]["correlationId"]:
                assert header == b""
                ends += 1
            else:
                assert int.from_bytes(header[4:], "big") == number
    assert ends == 1
    person.none()


@pytest.mark.long
def test_an_edit_is_in_the_audit_log_and_in_kproxys_own(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor, tmp_path: Path
) -> None:
    audit = {"use": "audit", "with": {"file": {"path": str(tmp_path / "audit.jsonl")}}}
    entrance, person = start(audit)
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"a secret of the business")
    (stop,) = person.stops()
    before = bytes.fromhex(person.shown(stop)["hex"])
    person.replace(stop, "a secret of the business", "another secret")
    assert report.result(60) is None
    lines = [json.loads(line) for line in (tmp_path / "audit-0.jsonl").read_text(encoding="ascii").splitlines()]
    (edit,) = [line for line in lines if line["event"] == "edit"]
    assert (edit["action"], edit["api"], edit["direction"]) == ("replace", "Produce", "request")
    assert edit["before"] == {"size": len(before), "sha256": hashlib.sha256(before).hexdigest()}
    assert edit["changed"] == ["topicData[0].partitionData[0].records[0].records[0].value"]
    assert edit["by"].startswith("127.0.0.1:")
    event = logged(entrance, "changed at a breakpoint")
    assert (event["action"], event["by"], event["fields"]) == ("replace", edit["by"], edit["changed"])
    assert entrance.proxy is not None
    assert "secret" not in entrance.proxy.log.read_text(encoding="utf-8") + json.dumps(lines)


@pytest.mark.long
def test_a_login_is_not_stopped_and_no_answer_has_its_password(
    single: Cluster, tmp_path: Path, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    single.topic(topic_name)
    served = virtual_cluster(single.bootstrap("SASL"))
    proxy = Proxy(tmp_path / "sasl", [served], page={"edits": True, "hold": 0.3}).start()
    try:
        person = Person(proxy)
        for direction in ("request", "response"):
            person.stop_at("true", direction=direction)
            login = Security("SASL_PLAINTEXT", "PLAIN").librdkafka()
            report = at_once.submit(produce, proxy.bootstrap(), topic_name, b"v", **login)
            seen: dict[str, str] = {}
            while not report.done():
                for stop in person.done("GET", "/stops?wait=0.2")["stops"]:
                    status, text = person.ask("GET", f"/stops/{stop['id']}")
                    if status == 200:
                        seen[stop["api"]] = json.dumps(text)
            assert report.result(60) is None
            assert {"Metadata", "Produce"} <= set(seen)
            assert not {"SaslHandshake", "SaslAuthenticate"} & set(seen)
            assert not [api for api, text in seen.items() if PASSWORD in text]
        assert person.ask("PUT", "/breakpoints", [{"condition": 'api == "SaslAuthenticate"'}])[0] == 400
        assert '"principal": "' in seen["Produce"]
    finally:
        proxy.close()
