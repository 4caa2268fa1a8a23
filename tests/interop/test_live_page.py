"""The live page of a running proxy: a browser with the token sees what clients do, also of those that were there before it."""

import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Producer

from tests.support.kafka.brokers import USER, Cluster
from tests.support.kafka.fixtures import Entrances, Way
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster

pytestmark = [pytest.mark.parametrize("single", [NEWEST], indirect=True), pytest.mark.long]
TITLE = "kproxy: page"


class Browser:
    """Opens the address from the log, and keeps the cookie."""

    def __init__(self, proxy: Proxy) -> None:
        self.url = urlsplit(eventually(lambda: _url(proxy), what="the address in the log"))
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


def _url(proxy: Proxy) -> str | None:
    for line in proxy.log.read_text(encoding="utf-8").splitlines():
        if line.startswith("{") and (event := json.loads(line))["event"] == "the page":
            return Path(event["file"]).read_text(encoding="ascii").strip()
    return None


@pytest.fixture
def proxy(single: Cluster, tmp_path: Path) -> Iterator[Proxy]:
    running = Proxy(tmp_path / "proxy", [virtual_cluster(single.bootstrap("PLAIN"))])
    yield running.start().analyzing()
    running.close()


def produce(proxy: Proxy, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": proxy.bootstrap(), "client.id": "watched", "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, b"v", partition=0)
        producer.flush(60)


def ask(proxy: Proxy, count: int) -> None:
    """Send so many ApiVersions requests on one connection, and read their responses."""
    host, _, port = proxy.bootstrap().rpartition(":")
    with socket.create_connection((host, int(port)), timeout=90) as connection:
        stream = connection.makefile("rb")
        for start in range(0, count, 100):
            ids = range(start, start + 100)
            connection.sendall(b"".join(pack(">ihhih7s", 17, 18, 0, number, 7, b"counted") for number in ids))
            for number in ids:
                (size,) = unpack(">i", stream.read(4))
                assert unpack(">i", stream.read(size)[:4]) == (number,)


def seen(browser: Browser, count: int) -> Any:
    """The Produce exchanges of the client, once there are so many."""
    query = "exchanges?filter=apiName%3D%3D%22Produce%22&columns=clientId,topics&limit=100"
    return eventually(lambda: (page := browser.json(query))["total"] >= count and page, what="exchanges in the page")


def test_a_browser_sees_what_clients_do(proxy: Proxy, single: Cluster, topic_name: str) -> None:
    single.topic(topic_name)
    browser = Browser(proxy)
    assert browser.get("/")[2].startswith(b"kproxy\n/metrics"), "without the token the list of pages"
    assert browser.get("/page/api/source")[0] == 403
    assert browser.get("/?token=wrong")[2].startswith(b"kproxy\n/metrics")
    assert not proxy.named(TITLE), "nothing runs before a browser comes that has the token"
    browser.open()
    assert b"<html" in browser.get("/")[2]
    source = eventually(lambda: (now := browser.json("source"))["fed"] and now, what="the analyzer")
    assert (source["live"], source["editable"]) == (True, False)
    assert len(proxy.named(TITLE)) == 1
    produce(proxy, topic_name, 5)
    page = seen(browser, 5)
    assert page["rows"] == [["watched", [topic_name]]] * 5
    detail = browser.json(f"exchanges/{page['numbers'][0]}")
    assert '"name":"topicData"' in json.dumps(detail, separators=(",", ":")).replace(" ", "")
    asked = 5_000
    before = browser.json("source")
    ask(proxy, asked)
    after = eventually(
        lambda: (now := browser.json("source"))["seen"] == before["seen"] + asked and now, what="all that was asked"
    )
    query = "exchanges?filter=apiName%3D%3D%22ApiVersions%22+%26%26+clientId%3D%3D%22counted%22&limit=1"
    assert browser.json(query)["total"] + after["dropped"] - before["dropped"] == asked
    assert after["exchanges"] + after["left"] + after["dropped"] == after["seen"]
    assert {row[0] for row in browser.json("analyses/inventory")["rows"]}, "of connections that are open"
    (process,) = proxy.named(TITLE)
    assert browser.get("/page/api/source", origin="http://evil.example")[0] == 403
    os.kill(process, signal.SIGKILL)
    eventually(lambda: browser.json("source")["fed"], what="another page")
    assert browser.json("source")["instance"] != after["instance"]
    produce(proxy, topic_name, 2)
    assert len(seen(browser, 2)["rows"]) == 2
    assert proxy.stop(patience=60) == 0


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
