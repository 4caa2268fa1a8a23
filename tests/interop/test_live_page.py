"""The live page of a running proxy: a browser with the token sees what clients do, also of those that were there before it."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.interop.clients import CLIENTS
from tests.interop.test_clients import PARTITIONS, poll_until_shared
from tests.support.kafka.brokers import USER, Cluster
from tests.support.kafka.fixtures import Entrance, Entrances, Way
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.sockets import end_offsets

pytestmark = [pytest.mark.parametrize("single", [NEWEST], indirect=True), pytest.mark.long]


class Browser:
    """Opens the address from the log, and keeps the cookie."""

    def __init__(self, proxy: Proxy) -> None:
        self.url = urlsplit(proxy.page_url())
        self.cookie = ""

    def get(self, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers, body."""
        connection = http.client.HTTPConnection(self.url.netloc, timeout=90)
        try:
            connection.request("GET", path, headers={"cookie": self.cookie, **headers})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def open(self) -> None:
        """Exchange the token for a cookie, as a browser does."""
        status, headers, _ = self.get(f"/?{self.url.query}")
        assert (status, headers["location"]) == (303, "/")
        self.cookie = headers["set-cookie"].partition(";")[0]

    def json(self, path: str) -> Any:
        """An answer of the page."""
        status, _, body = self.get(f"/page/api/{path}")
        assert status == 200, body
        return json.loads(body)


WAYS = {  # what a client logs in with -> whom that names
    "SCRAM": (Way("SASL", "SASL_PLAINTEXT", "SCRAM-SHA-256"), USER),
    "PLAIN in TLS": (Way("SASL", "SASL_SSL", "PLAIN"), USER),
    "a certificate": (Way("MUTUAL", "SSL", mutual=True), "CN=client"),
}


@pytest.mark.parametrize("way", WAYS)
def test_who_logged_in_before_the_page_was_opened(guarded: Entrances, way: str, topic_name: str) -> None:
    """The user, the client's software and its TLS are those of the login, which the page has not seen."""
    leg, principal = WAYS[way]
    entrance = guarded(leg)
    entrance.cluster.topic(topic_name)
    proxy = entrance.proxy
    assert proxy is not None
    settings = {"bootstrap.servers": entrance.bootstrap, "client.id": "early", **entrance.security.librdkafka()}
    producer = Producer({**settings, "linger.ms": 0})
    producer.produce(topic_name, b"before", partition=0)
    producer.flush(60)
    browser = Browser(proxy)
    browser.open()
    eventually(lambda: browser.json("source")["fed"], what="the analyzer")
    producer.produce(topic_name, b"after", partition=0)
    producer.flush(60)
    query = "exchanges?filter=apiName%3D%3D%22Produce%22&columns=clientId,principal"
    page = eventually(lambda: (found := browser.json(query))["total"] and found, what="the record in the page")
    assert page["rows"] == [["early", principal]]
    logins = "exchanges?filter=apiKey+in+%5B17%2C18%2C36%5D+%26%26+clientId%3D%3D%22early%22&limit=1"
    assert browser.json(logins)["total"] == 0, "the login is not in the page"
    answer = browser.json("analyses/inventory")
    names = [column["name"] for column in answer["columns"]]
    (client,) = (row for row in (dict(zip(names, row, strict=True)) for row in answer["rows"]) if row["requests"])
    assert (client["client_id"], client["principal"]) == ("early", principal)
    assert (client["software"], client["evidence"]) == ("confluent-kafka-python", "ApiVersions")
    assert client["sasl_mechanisms"] == ([leg.mechanism] if leg.mechanism else [])
    assert client["tls_versions"] == (["TLS 1.3"] if leg.client_tls else [])
    assert browser.json("analyses/plaintext_credentials")["rows"] == []


COUNT, JAVA_COUNT, READ, BEHIND = 900, 300, 600, 40  # records
# Of connections the page knows by numbers of its own; and how long messages were in the proxy, which a capture does not say
OTHERS = {"connection_id", "connection", "exchange", "proxy_ms", "broker_p99_ms"}
Answers = dict[str, dict[str, Any]]


class Workload:
    """Two producers, a group of librdkafka's that rebalances, one of Java's; what they counted themselves."""

    def __init__(self, single: Cluster, proxy: Proxy, topic: str) -> None:
        self.single, self.topic, self.java_topic = single, topic, f"{topic}-java"
        self.entrance = Entrance(single, proxy.bootstrap(), proxy=proxy)
        self.written = self.java_read = self.read = 0

    def run(self) -> None:
        self.single.topic(self.topic, PARTITIONS)
        self.single.topic(self.java_topic)
        self._write(COUNT)
        java = CLIENTS[0]
        assert java.name == "java"
        assert java.produce(self.entrance, self.java_topic, JAVA_COUNT, client_id="java-writer") == JAVA_COUNT
        self.java_read = len(java.consume(self.entrance, self.java_topic, JAVA_COUNT, client_id="java-reader"))
        first = self._member("reader-1")
        self.read += len(poll_until_shared([first], PARTITIONS))
        second = self._member("reader-2")
        self.read += len(poll_until_shared([first, second], PARTITIONS))
        second.close()
        self.read += len(poll_until_shared([first], PARTITIONS))
        while self.read < READ:
            self.read += len(first.consume(READ - self.read, timeout=1))
        positions = [TopicPartition(self.topic, number, number) for number in range(PARTITIONS)]
        first.commit(offsets=positions, asynchronous=False)
        self._write(BEHIND)
        first.close()

    def _write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.entrance.bootstrap, "client.id": "writer", "linger.ms": 5})
        for number in range(count):
            producer.produce(self.topic, b"v", partition=number % PARTITIONS, on_delivery=self._delivered)
        assert producer.flush(60) == 0

    def _delivered(self, error: object, _: Message) -> None:
        self.written += error is None

    def _member(self, name: str) -> Consumer:
        settings = {"bootstrap.servers": self.entrance.bootstrap, "client.id": name, "group.id": f"{self.topic}-group"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe([self.topic])
        return consumer


@pytest.fixture
def captured_proxy(single: Cluster, tmp_path: Path) -> Iterator[Proxy]:
    capture = {"path": str(tmp_path / "traffic.pcapng")}
    running = Proxy(tmp_path / "proxy", [virtual_cluster(single.bootstrap("PLAIN"))], analysis={"capture": capture})
    yield running.start().analyzing()
    running.close()


def rows_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, row, strict=True)) for row in answer["rows"]]


def alike(rows: list[dict[str, Any]]) -> list[str]:
    """Rows without what is the page's own, in an order of their own."""
    return sorted(json.dumps({name: row[name] for name in row if name not in OTHERS}, sort_keys=True) for row in rows)


def answers_of(browser: Browser) -> Answers:
    return {one["id"]: browser.json(f"analyses/{one['id']}") for one in browser.json("analyses")}


def test_analyses_are_those_of_the_capture_and_of_kafka(
    captured_proxy: Proxy, single: Cluster, topic_name: str, tmp_path: Path
) -> None:
    browser = Browser(captured_proxy)
    browser.open()
    eventually(lambda: browser.json("source")["fed"], what="the analyzer")
    work = Workload(single, captured_proxy, topic_name)
    work.run()
    eventually(lambda: captured_proxy.count("kproxy_connections_open") == 0, what="all have closed")
    eventually(lambda: captured_proxy.count("kproxy_analysis_connections") == 0, what="all are analyzed")
    source = eventually(
        lambda: (now := browser.json("source"))["exchanges"] == captured_proxy.count("kproxy_requests_total") and now,
        what="each request that the captured_proxy counted is in the page",
    )
    assert source["seen"] == source["exchanges"]
    found: list[Answers] = [answers_of(browser)]

    def settled() -> bool:
        found.append(answers_of(browser))
        return found[-1] == found[-2]

    eventually(settled, patience=240, what="the page has all of it")
    live = found[-1]
    activity = browser.json("activity?by=client&buckets=50")
    heatmap = browser.json("heatmap?buckets=50")
    assert captured_proxy.stop(patience=60) == 0
    words = [sys.executable, "-m", "kproxy", "report", "-q", "--format", "json"]
    captures = map(str, sorted(tmp_path.glob("traffic*.pcapng")))
    reported = json.loads(subprocess.run([*words, *captures], capture_output=True, check=True).stdout)["analyses"]
    compared = [name for name in live if name in reported]
    assert len(compared) > 50
    differences = {
        name: (alike(rows_of(live[name])), alike(reported[name]["rows"]))
        for name in compared
        if alike(rows_of(live[name])) != alike(reported[name]["rows"])
    }
    assert differences == {}
    assert {name: live[name]["verdict"] for name in compared} == {name: reported[name]["verdict"] for name in compared}
    assert all(answer["leftOut"] is None and answer["uncertain"] is None for answer in live.values())
    _of_the_workload(work, live)
    _of_kafka(work, live)
    requests = {one["name"]: sum(one["exchanges"]) for one in activity["series"]}
    inventory = {row["client_id"]: row["requests"] for row in rows_of(live["inventory"])}
    assert requests == inventory
    assert sum(map(sum, heatmap["counts"])) == sum(row["requests"] for row in rows_of(live["latency"]))


def _of_the_workload(work: Workload, live: Answers) -> None:
    """Map and inventory: who wrote and read how many records."""
    edges = {(row["client_id"], row["direction"], row["topic"]): row["records"] for row in rows_of(live["map"])}
    assert edges["writer", "produce", work.topic] == work.written == COUNT + BEHIND
    assert edges["java-writer", "produce", work.java_topic] == JAVA_COUNT
    assert edges["java-reader", "fetch", work.java_topic] >= work.java_read == JAVA_COUNT
    read = sum(edges.get((name, "fetch", work.topic), 0) for name in ("reader-1", "reader-2"))
    assert read >= work.read >= READ
    software = {row["client_id"]: row["software"] for row in rows_of(live["inventory"])}
    assert {software["java-writer"], software["java-reader"]} == {"apache-kafka-java"}
    assert {software[name] for name in ("writer", "reader-1", "reader-2")} == {"confluent-kafka-python"}
    causes = [row["cause"] for row in rows_of(live["rebalances"]) if row["group_id"] == f"{work.topic}-group"]
    assert causes.count("joined") == 2
    assert causes.count("left") == 2


def _of_kafka(work: Workload, live: Answers) -> None:
    """Lag: what the group has committed, and where the partitions end."""
    asker = Consumer({"bootstrap.servers": work.single.open, "group.id": f"{work.topic}-group"})
    partitions = [TopicPartition(work.topic, number) for number in range(PARTITIONS)]
    committed = {each.partition: each.offset for each in asker.committed(partitions, timeout=30)}
    asker.close()
    ends = end_offsets(work.single.open, work.topic)
    shown = {
        row["partition"]: (row["committed_offset"], row["end_offset"], row["lag"])
        for row in rows_of(live["lag"])
        if row["topic"] == work.topic and row["is_last"]
    }
    assert shown == {number: (committed[number], ends[number], ends[number] - committed[number]) for number in ends}
