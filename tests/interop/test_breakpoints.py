"""Breakpoints with Kafka's own client and librdkafka before a real broker: what a person makes of a message is what arrives."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError

from tests.support.fault_clients.java import JavaClient
from tests.support.frames import request
from tests.support.kafka.brokers import PASSWORD, Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.security import Security
from tests.support.sockets import address, end_offsets
from tests.support.stopping import PRODUCE, Stopping, produce, stopping, values

Starts = Callable[..., Stopping]

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]


@pytest.fixture
def start(single: Cluster, tmp_path: Path, topic_name: str) -> Iterator[Starts]:
    """Starts a proxy that allows breakpoints, with a person at its page; see Stopping."""
    with ExitStack() as started:
        yield lambda **more: started.enter_context(stopping(single, tmp_path / "proxy", topic_name, **more))


def test_an_edited_request_is_what_the_broker_gets_and_an_edited_response_what_the_client_gets(start: Starts) -> None:
    scene = start()
    person = scene.person
    person.stop_at(f'{PRODUCE} && "{scene.topic}" in topics')
    report = scene.produce(b"as the client wrote it")
    (stop,) = person.stops()
    assert (stop["api"], stop["direction"], stop["expectsResponse"]) == ("Produce", "request", True)
    person.replace(stop, "as the client wrote it", "as the person wrote it, which is longer")
    assert report.result(60) is None
    assert scene.values(1, **{"check.crcs": True}) == [b"as the person wrote it, which is longer"]

    person.stop_at('apiName == "Fetch" && response.responses.exists(r, size(r.partitions) > 0)', direction="response")
    read = scene.at_once(values, scene.proxy.bootstrap(), scene.topic, 1, **{"check.crcs": True})

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
    assert scene.values(1) == [b"as the person wrote it, which is longer"], "of the client alone"


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_client_sees_exactly_the_error_that_a_person_has_chosen(start: Starts, client: str) -> None:
    scene = start()
    person = scene.person
    person.stop_at(PRODUCE)
    if client == "java":
        java = JavaClient()
        seen = scene.at_once(java.run, "Produce", scene.proxy.bootstrap(), scene.topic, "c", {"retries": "0"})
    else:
        seen = scene.produce(b"v", retries=0)
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
    assert end_offsets(scene.broker.open, scene.topic) == {0: 2 if client == "java" else 0}


def test_what_nobody_decides_goes_on_by_itself(start: Starts) -> None:
    scene = start(page={"hold": 3})  # seconds, in which it is seen
    report, stop = scene.stopped_produce(b"untouched")
    assert stop["resumesMs"] - stop["stoppedMs"] == 3_000
    assert report.result(60) is None
    scene.person.none()
    assert scene.person.ask("POST", f"/stops/{stop['id']}", {"action": "drop"})[0] == 409
    assert scene.values(1) == [b"untouched"]


def test_a_browser_that_is_gone_leaves_nothing_stopped(start: Starts) -> None:
    scene = start(page={"away": 2})
    report, _ = scene.stopped_produce(b"untouched")
    assert report.result(60) is None  # nobody asks any more, and the stop would last two minutes
    assert scene.logged("breakpoints were removed, as no page is open")["seconds"] == 2
    assert scene.person.done("GET", "/breakpoints") == []
    assert scene.produce(b"at once").result(60) is None
    assert scene.values(2) == [b"untouched", b"at once"]


def test_a_reload_keeps_what_is_stopped_and_one_that_allows_no_edits_lets_it_go(start: Starts) -> None:
    scene = start()
    proxy, person = scene.proxy, scene.person
    report, stop = scene.stopped_produce(b"as the client wrote it")
    proxy.config["timeouts"] = {"idle": 600}
    proxy.write()
    scene.logged("the configuration was taken")
    assert [one["id"] for one in person.stops()] == [stop["id"]]
    person.replace(stop, "as the client wrote it", "after a reload")
    assert report.result(60) is None

    report = scene.produce(b"of the old address")
    person.stops()
    proxy.config["clusters"][0]["listen"] = cluster([])["listen"]
    proxy.write()
    assert report.result(60) is None
    assert person.done("GET", "/stops")["ended"][0]["why"] == "cluster removed"

    report = scene.produce(b"let go")
    person.stops()
    proxy.config["page"] = {}
    proxy.write()
    assert report.result(60) is None
    assert eventually(lambda: person.ask("GET", "/stops")[0] == 404, what="the page is closed")
    assert scene.values(3) == [b"after a reload", b"of the old address", b"let go"]


def test_a_proxy_that_drains_lets_go_what_is_stopped(start: Starts) -> None:
    scene = start()
    report, _ = scene.stopped_produce(b"answered while it drains")
    assert scene.proxy.stop(patience=60) == 0
    assert report.result(60) is None
    assert scene.values(1) == [b"answered while it drains"]


def test_a_killed_worker_takes_its_stops_along_and_the_next_one_stops_again(start: Starts) -> None:
    scene = start()
    report, before = scene.stopped_produce(b"sent again", **{"enable.idempotence": True})
    (worker,) = scene.proxy.workers()
    os.kill(worker, signal.SIGKILL)
    (after,) = eventually(
        lambda: [stop for stop in scene.person.stops() if stop["id"] != before["id"]], what="a stop of the next worker"
    )
    assert scene.person.ask("GET", f"/stops/{before['id']}")[0] == 409
    scene.person.replace(after, "sent again", "and changed")
    assert report.result(60) is None
    assert scene.values(1) == [b"and changed"]


def test_a_hundred_messages_are_stopped_at_once_in_two_workers(start: Starts) -> None:
    scene = start(workers=2)
    person = scene.person
    person.stop_at('apiName == "ApiVersions" && clientId == "one of many"')
    sockets = [socket.create_connection(address(scene.proxy.bootstrap()), 60) for _ in range(100)]
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


def test_an_edit_is_in_the_audit_log_and_in_kproxys_own(start: Starts, tmp_path: Path) -> None:
    audit = {"use": "audit", "with": {"file": {"path": str(tmp_path / "audit.jsonl")}}}
    scene = start(filters=(audit,))
    report, stop = scene.stopped_produce(b"a secret of the business")
    old, new = "a secret of the business", "another secret"
    scene.person.replace(stop, old, new)
    assert report.result(60) is None
    lines = [json.loads(line) for line in (tmp_path / "audit-0.jsonl").read_text(encoding="ascii").splitlines()]
    (edit,) = [line for line in lines if line["event"] == "edit"]
    assert (edit["action"], edit["api"], edit["direction"]) == ("replace", "Produce", "request")
    assert edit["before"]["size"] - edit["after"]["size"] == len(old) - len(new)
    assert edit["before"]["sha256"] != edit["after"]["sha256"]
    assert edit["changed"] == ["topicData[0].partitionData[0].records[0].records[0].value"]
    assert edit["by"].startswith("127.0.0.1:")
    event = scene.logged("changed at a breakpoint")
    assert (event["action"], event["by"], event["fields"]) == ("replace", edit["by"], edit["changed"])
    assert "secret" not in scene.proxy.log.read_text(encoding="utf-8") + json.dumps(lines)


def test_a_login_is_not_stopped_and_no_answer_has_its_password(start: Starts) -> None:
    scene = start(listener="SASL", page={"hold": 0.3})
    person = scene.person
    login: dict[str, Any] = Security("SASL_PLAINTEXT", "PLAIN").librdkafka()
    for direction in ("request", "response"):
        person.stop_at("true", direction=direction)
        report = scene.at_once(produce, scene.proxy.bootstrap(), scene.topic, b"v", **login)
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
    assert person.ask("PUT", "/breakpoints", [{"condition": 'apiName == "SaslAuthenticate"'}])[0] == 400
    assert '"principal": "' in seen["Produce"]


def test_a_rule_that_is_kept_passes_the_check_and_does_to_the_next_message_what_was_done(
    start: Starts, single: Cluster, tmp_path: Path
) -> None:
    """An error, a closed connection and another throttle time, each from the YAML that the page shows."""
    scene = start()
    person = scene.person
    clause = f'{PRODUCE} && "{scene.topic}" in topics'
    kept: dict[str, list[dict[str, Any]]] = {}
    for direction, action, more in (
        ("request", "error", {"error": "INVALID_RECORD"}),
        ("request", "close", {}),
        ("response", "replace", {}),
    ):
        person.stop_at(clause, direction=direction)
        report = scene.produce(b"before", retries=0)
        (stop,) = person.stops()
        text = person.shown(stop)["json"].replace('"throttleTimeMs": 0', '"throttleTimeMs": 700')
        asked = {"id": stop["id"], "action": action, **more, **({"json": text} if action == "replace" else {})}
        text = person.done("POST", "/stops/rule", asked)["yaml"]
        kept[action] = yaml.safe_load(text)["filters"]
        person.decide(stop, "resume")
        assert report.result(60) is None
        person.none()

    person.stop_at()
    throttled: list[float] = []
    for action, filters in kept.items():
        proxy = Proxy(tmp_path / action, [cluster(single.bootstrap(), filters=filters)])
        proxy.write()
        words = [sys.executable, "-m", "kproxy", "check", str(proxy.file)]
        check = subprocess.run(words, capture_output=True, text=True, check=False)
        assert check.returncode == 0, check.stdout + check.stderr
        try:
            proxy.start()
            patience = {"retries": 0, "message.timeout.ms": 10_000}
            error = produce(
                proxy.bootstrap(),
                scene.topic,
                b"after",
                throttle_cb=lambda event: throttled.append(event.throttle_time),
                **patience,
            )
        finally:
            proxy.close()
        if action == "error":
            assert error is not None and error.code() == KafkaError.INVALID_RECORD
        else:
            assert (error is None) is (action == "replace"), error
    assert throttled == [0.7]
    assert end_offsets(scene.broker.open, scene.topic) == {0: 4}, "three let go, one throttled"


def test_what_one_connection_has_sent_at_once_is_stopped_and_answered_in_order(start: Starts) -> None:
    """Each request is stopped when the one before has been decided; answers of kproxy wait for those of the broker."""
    scene = start()
    person = scene.person
    person.stop_at('apiName == "ApiVersions" && clientId == "many at once"')
    errors = {2: 35, 5: 41}  # UNSUPPORTED_VERSION, NOT_CONTROLLER
    names = {35: "UNSUPPORTED_VERSION", 41: "NOT_CONTROLLER"}
    with socket.create_connection(address(scene.proxy.bootstrap()), 60) as client:
        client.sendall(b"".join(request(18, 0, number, b"", client_id="many at once") for number in range(1, 6)))
        for number in range(1, 6):
            (stop,) = eventually(
                lambda number=number: [one for one in person.stops() if one["correlationId"] == number],  # type: ignore[misc]
                what=f"request {number}",
            )
            if number in errors:
                person.decide(stop, "error", error=names[errors[number]])
            else:
                person.decide(stop, "resume")
        for number in range(1, 6):
            size, correlation_id, code = struct.unpack(">iih", client.recv(10, socket.MSG_WAITALL))
            assert (correlation_id, code) == (number, errors.get(number, 0))
            client.recv(size - 6, socket.MSG_WAITALL)


def test_no_consumer_is_taken_for_dead_while_each_of_its_requests_waits_as_long_as_it_may(start: Starts) -> None:
    """With two fifths of the default's 5 s, and of the 45 s of clients' session timeout: it joins once and stays."""
    scene = start(page={"hold": 2, "away": 300})
    assert scene.produce(b"read by a group").result(60) is None
    scene.person.stop_at('clientId == "member"')
    lost: list[str] = []
    beats: set[str] = set()
    settings = {
        "bootstrap.servers": scene.proxy.bootstrap(),
        "client.id": "member",
        "group.id": scene.topic,
        "log_level": 0,
    }
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "session.timeout.ms": 18_000})
    consumer.subscribe(
        [scene.topic], on_revoke=lambda *_: lost.append("revoked"), on_lost=lambda *_: lost.append("lost")
    )
    found = []

    def done() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
        stops = scene.person.done("GET", "/stops")["stops"]
        beats.update(stop["id"] for stop in stops if stop["api"] == "Heartbeat")
        return bool(found) and len(beats) >= 4

    try:
        eventually(done, patience=240, what="a record, and four heartbeats that were stopped")
        assert (found, lost) == ([b"read by a group"], [])
    finally:
        scene.person.stop_at()
        scene.person.done("POST", "/stops/resume-all")
        consumer.close()
