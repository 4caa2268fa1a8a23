"""Promise 20: credentials and records that pass a running proxy are in none of its outputs, in no spelling.

Planted wherever Kafka carries some (tests/support/canaries.py), in the configuration, in a private key, at wrong places. Outputs
are the proxy's files, its log, its admin server, also while connections are open, its processes' titles, and spans; the live
page, messages that a breakpoint has stopped, and what kproxy doctor says of the proxy. And promise 21: hostile names in these
outputs, where one event is one line, and a name stays a value; 20,000 names with `-m long`.
"""

import base64
import contextlib
import json
import re
import secrets
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics
from prometheus_client.parser import text_string_to_metric_families as of_prometheus

from kproxy.proxy.supervisor.browser_guard import cookie_name
from tests.chaos.conftest import FIXED, Scripted, Start
from tests.support.canaries import Canaries, Scene, named, record_scenes, scenes, unpacked
from tests.support.certificates import Authority
from tests.support.hostile_names import EXCHANGES, NAMES_A_SCENE, hostile_names, scenes_of
from tests.support.kafka.processes import command_line, eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.otlp import Collector, attributes, http_collector
from tests.support.peers import ScriptedBroker, broker_of, play
from tests.support.ports import free_ports
from tests.support.stopping import Person

PAGES = ("/metrics", "/connections", "/config", "/filters", "/readyz", "/readyz?format=json", "/healthz", "/")
COLUMNS = "clientId,groups,topics,transactionalId,memberId,undecoded,unanswered"
OF_THE_PAGE = (
    "/source",
    *(f"/activity?by={by}" for by in ("client", "topic", "error")),
    "/complete?text=clientId%20%3D%3D%20&cursor=12",
    "/breakpoints",
)
STOPPED = ("CreateTopics", "AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def outputs(proxy: Proxy, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Everything that a proxy shows, by name."""
    for page in PAGES:
        yield page, proxy.get(page, but=(503,))[1].encode()
    asking = urllib.request.Request(f"http://{proxy.config['admin']}/metrics", headers={"Accept": OPENMETRICS})
    with urllib.request.urlopen(asking, timeout=10) as answer:
        yield "/metrics, OpenMetrics", answer.read()
    for pid in proxy.pids():
        yield f"title of {pid}", command_line(pid).encode()
    yield "log", proxy.log.read_bytes()
    for file in folder.rglob("*"):
        if file.is_file():
            yield file.name, file.read_bytes()


class Watcher:
    """Reads the pages of a proxy again and again in a thread, as long as the block lasts; ``seen`` has each text once."""

    def __init__(self, proxy: Proxy) -> None:
        self.seen: dict[bytes, str] = {}
        self._proxy = proxy
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while True:
            for page in ("/connections", "/metrics", "/filters"):
                with contextlib.suppress(OSError):
                    self.seen[self._proxy.get(page, but=(503,))[1].encode()] = page
            if self._ended.wait(0.2):
                return

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def private_key(file: Path) -> dict[str, bytes]:
    """The key in a PEM file as it may stand somewhere: its DER, from its middle on, in the spellings of bytes."""
    der = base64.b64decode("".join(re.findall(r"^[A-Za-z0-9+/=]+$", file.read_text("ascii"), re.MULTILINE)))
    secret = der[36:66]  # inside of the private number of a PKCS#8 key of P-256
    shifts = {
        f"base64 {shift}": base64.b64encode(secret[shift : shift + 9]) for shift in range(3)
    }  # lines break behind
    return {"raw": secret, "hex": secret.hex().encode(), "HEX": secret.hex().upper().encode(), **shifts}


def key_found_in(key: dict[str, bytes], made: dict[str, bytes]) -> list[tuple[str, str]]:
    return [(name, how) for name, data in made.items() for how, spelling in key.items() if spelling in data]


def settings(folder: Path, canary: Canaries, unreachable: str, collector: Collector) -> dict[str, Any]:
    """A configuration with every output, and with secrets of its own."""
    rules = [
        {"when": 'apiName == "AlterConfigs" || apiName == "CreateDelegationToken"', "dry_run": True},
        {"when": 'principal == "alice" && apiName == "Heartbeat"', "dry_run": True},
    ]
    filters = [
        {"use": "audit", "with": {"file": {"path": str(folder / "audit.jsonl")}, "mode": "drop-and-count"}},
        {"use": "deny", "with": {"rules": rules, "file": {"path": str(folder / "deny.jsonl")}}},
        {"use": "tests.chaos.faulty_filters:Telling"},
    ]
    through = f"socks5://user:{canary('password of a SOCKS proxy')}@{unreachable}"
    own = {
        "use": "tests.chaos.faulty_filters:Faulty",
        "with": {"fault": canary("option of a filter"), "fails_open": True},
    }
    headers = {"authorization": f"Bearer {canary('header of telemetry')}", "x-team": canary("another header")}
    forward = {"use": "telemetry", "with": {"forward": {"otlp": f"http://{unreachable}", "headers": headers}}}
    certificate, key = Authority("kproxy", folder.parent / "pki").issue_for("kproxy")
    other = cluster(
        ["127.0.0.1:1"],
        name="other",
        addresses=FIXED,
        through=through,
        filters=[own, forward],
        listener_tls={"certificate": str(certificate), "key": str(key)},
    )
    log = {"log": {"path": str(folder / "decoded.jsonl")}, "capture": {"path": str(folder / "capture.pcapng")}}
    traces = {"otlp": collector.address, "sample": 1, "headers": {"authorization": canary("header of traces")}}
    return {"filters": filters, "other": other, "analysis": log, "traces": traces, "key": key}


@pytest.mark.slow
def test_promise_20_no_credential_is_in_any_output(scripted: Scripted, proxied: Start, tmp_path: Path) -> None:
    canary = Canaries(secrets.randbits(32))
    credentials, records = scenes(canary), record_scenes(canary)
    folder = tmp_path / "outputs"
    folder.mkdir()
    with ScriptedBroker(broker_of([*credentials, *records])) as broker, http_collector() as collector:
        given = settings(folder, canary, f"127.0.0.1:{free_ports()}", collector)
        address = broker.address
        own = cluster([address], name="own", addresses=FIXED, filters=given["filters"])
        proxy = Proxy(tmp_path / "proxy", [own, given["other"]], analysis=given["analysis"], traces=given["traces"])
        try:
            proxy.start(reaches_brokers=False)
            proxy.analyzing()
            with Watcher(proxy) as watcher, ThreadPoolExecutor(24) as clients:
                list(clients.map(lambda scene: play(proxy, scene), [*credentials, *records]))
            eventually(lambda: proxy.count("kproxy_connections") == 0, what="all connections are closed")
            eventually(lambda: b"scene-1000000" in (folder / "decoded.jsonl").read_bytes(), what="all is logged")
            eventually(lambda: proxy.count("kproxy_spans_total", 'outcome="exported"') > 500, what="spans are exported")
            made = {name: unpacked(data) for name, data in outputs(proxy, folder)}
        finally:
            proxy.stop(patience=60)
        made |= {f"{name}, at the end": unpacked(data) for name, data in at_the_end(proxy, folder)}
        made |= {f"{page}, meanwhile {number}": data for number, (data, page) in enumerate(watcher.seen.items())}
        made["spans"] = b"\n".join(collector.bytes)
        named = {attributes(span)["messaging.operation.name"] for span in collector.spans()}
    assert named >= {"SaslAuthenticate", "CreateDelegationToken", "AlterConfigs", "Produce", "Fetch"}
    assert any(b'"client"' in data for data, page in watcher.seen.items() if page == "/connections")
    assert b"filter Telling failed" in made["log"]
    assert key_found_in(private_key(given["key"]), made) == []
    assert key_found_in(private_key(given["key"]), {"itself": unpacked(given["key"].read_bytes())}) != []
    assert made["decoded.jsonl"].count(b'"SaslAuthenticate"') > 50
    assert b"AlterUserScramCredentials" in made["audit-0.jsonl"]
    found = canary.found_in(made)
    told_by_captures = {
        each for each in found if "capture" in each[0] and ("produced" in each[1] or "fetched" in each[1])
    }
    assert sorted(found - told_by_captures) == []


def at_the_end(proxy: Proxy, folder: Path) -> Iterator[tuple[str, bytes]]:
    yield "log", proxy.log.read_bytes()
    for file in folder.rglob("*"):
        if file.is_file():
            yield file.name, file.read_bytes()


class Visitor(Person):
    """A person with the cookie too, without which the page's own process tells nothing."""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        host = urlsplit(self.address).netloc
        return super().ask(method, path, body, cookie=f"{cookie_name(host)}={self.token}", **headers)


class Resuming:
    """A person who looks at each stopped message and lets it go on, as long as the block lasts; ``seen`` has all texts."""

    def __init__(self, person: Person) -> None:
        self.seen: list[bytes] = []
        self.stops = 0
        self._person = person
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._resume)

    def _resume(self) -> None:
        while not self._ended.is_set():
            told = self._person.done("GET", "/stops")
            self._note(told)
            for stop in told["stops"]:
                status, answer = self._person.ask("GET", f"/stops/{stop['id']}")
                self._note(answer)
                self.stops += status == 200
                self._note(self._person.ask("POST", f"/stops/{stop['id']}", {"action": "resume"})[1])
            self._ended.wait(0.02)

    def _note(self, answer: Any) -> None:
        self.seen.append(json.dumps(answer, ensure_ascii=False).encode())

    def __enter__(self) -> "Resuming":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def page_of(person: Person) -> Iterator[tuple[str, bytes]]:
    """What the live page tells, by what was asked; each exchange by itself."""
    for path in OF_THE_PAGE:
        yield f"page {path}", json.dumps(person.done("GET", path), ensure_ascii=False).encode()
    numbers: list[int] = []
    while found := person.done("GET", f"/exchanges?columns={COLUMNS}&limit=500&offset={len(numbers)}"):
        yield f"page, rows from {len(numbers)}", json.dumps(found, ensure_ascii=False).encode()
        if not found["numbers"]:
            break
        numbers += found["numbers"]
    for number in numbers:
        answer = json.dumps(person.done("GET", f"/exchanges/{number}"), ensure_ascii=False)
        yield f"page, exchange {number}", answer.encode()
        frames = re.findall(r'"bytes": "([A-Za-z0-9+/=]+)"', answer)
        yield f"page, bytes of {number}", b"\n".join(map(base64.b64decode, frames))


def doctor(proxy: Proxy, properties: Path) -> Iterator[tuple[str, bytes]]:
    """What kproxy doctor says of the configuration and of the proxy that runs, with a login."""
    for form in ("text", "json"):
        words = ["doctor", "-c", str(proxy.file), "--command-config", str(properties), "--timeout", "1"]
        done = subprocess.run(
            [sys.executable, "-m", "kproxy", *words, "--format", form], capture_output=True, check=False, timeout=120
        )
        assert done.returncode in (0, 4), done.stderr
        yield f"doctor, {form}", done.stdout + done.stderr


@pytest.mark.long
def test_promise_20_no_credential_is_in_the_page_in_a_stopped_message_or_in_what_doctor_says(tmp_path: Path) -> None:
    canary = Canaries(secrets.randbits(32))
    shown = scenes(canary)
    properties = tmp_path / "client.properties"
    login = (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{canary("login")}";'
    )
    properties.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    with ScriptedBroker(broker_of(shown)) as broker:
        audit = {"use": "audit", "with": {"file": {"path": str(tmp_path / "audit.jsonl")}}}
        through = f"socks5://user:{canary('password of a SOCKS proxy')}@127.0.0.1:{free_ports()}"
        other = cluster(["127.0.0.1:1"], name="other", addresses=FIXED, through=through)
        served = [cluster([broker.address], name="own", addresses=FIXED, filters=[audit]), other]
        proxy = Proxy(tmp_path / "proxy", served, page={"edits": True, "hold": 120, "away": 120})
        try:
            proxy.start(reaches_brokers=False)
            proxy.analyzing()
            person = Visitor(proxy)
            eventually(lambda: person.ask("GET", "/source")[0] == 200, what="the live page")
            conditions = [f'apiName == "{api}"' for api in STOPPED]
            asked = [{"condition": one, "direction": side} for one in conditions for side in ("request", "response")]
            person.done("PUT", "/breakpoints", asked)
            with Resuming(person) as resuming, ThreadPoolExecutor(24) as clients:
                list(clients.map(lambda scene: play(proxy, scene), shown))
            eventually(lambda: proxy.count("kproxy_connections_open") == 0, what="all connections are closed")
            eventually(lambda: person.done("GET", "/source")["exchanges"] > 100, what="exchanges in the page")
            made = {f"stopped {number}": text for number, text in enumerate(resuming.seen)}
            made |= {name: unpacked(data) for name, data in page_of(person)}
            made |= dict(doctor(proxy, properties)) | dict(outputs(proxy, tmp_path / "proxy"))
        finally:
            proxy.stop(patience=60)
    del made["kproxy.yaml"]
    assert resuming.stops > 20
    assert any(b"CreateTopics" in text for name, text in made.items() if name.startswith("stopped"))
    assert sorted(canary.found_in(made)) == []


LONGEST_ATTRIBUTE = 255  # characters
MOST_SERIES = 1_000


def filters(folder: Path) -> list[dict[str, Any]]:
    rules = [{"name": "joins", "when": 'apiName == "JoinGroup"', "dry_run": True}]
    names = [{"name": "names", "when": 'clientId != "x" && topic != "y"', "api_name": ["Metadata"], "dry_run": True}]
    audit = {"file": {"path": str(folder / "audit.jsonl")}, "mode": "block", "patience": "60s"}
    return [
        {"use": "audit", "with": audit},
        {"use": "deny", "with": {"rules": rules, "file": {"path": str(folder / "deny.jsonl")}}},
        {"use": "deny", "with": {"rules": names}},  # into the log
        {"use": "throttle", "with": {"limits": [{"by": "client_id", "requests": 1_000_000}]}},
    ]


def lines(*files: Path, is_safe: Callable[[str], bool] = str.isprintable) -> list[dict[str, Any]]:
    """The lines of files, each of which is one JSON object; *is_safe*: without anything that a terminal obeys."""
    found = [line for file in files for line in file.read_bytes().decode("utf-8").removesuffix("\n").split("\n")]
    assert all(map(is_safe, found))
    return [json.loads(line) for line in found]


def scraped(proxy: Proxy, accept: str, parse: Callable[[str], Iterable[Any]]) -> Counter[str]:
    """Series by family; each line is one, and another reader of the format finds the same ones."""
    asking = urllib.request.Request(f"http://{proxy.config['admin']}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(asking, timeout=60) as answer:
        text = answer.read().decode("utf-8")
    shown = [line for line in text.split("\n") if line and not line.startswith("#")]
    found = [sample.name for family in parse(text) for sample in family.samples]
    assert Counter(found) == Counter(line.partition("{")[0].partition(" ")[0] for line in shown)
    return Counter(found)


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_promise_21_a_name_breaks_no_line(count: int, tmp_path: Path) -> None:
    made = scenes_of(hostile_names(secrets.randbits(32), count))
    shown = [Scene(scene.name, named(scene, number)) for number, scene in enumerate(made)]
    requests = count * EXCHANGES + len(shown) * 3  # a heartbeat and a login in each
    assert len(shown) == -(-count // NAMES_A_SCENE)
    with ScriptedBroker(broker_of(shown)) as broker, http_collector() as collector:
        traces = {"otlp": collector.address, "sample": 1}
        log = {"log": {"path": str(tmp_path / "decoded.jsonl"), "most_size": "10GiB"}, "ring_size": "64MiB"}
        served = cluster([broker.address], addresses=FIXED, filters=filters(tmp_path))
        proxy = Proxy(tmp_path / "proxy", [served], analysis=log, traces=traces, workers=2)
        try:
            proxy.start().analyzing()
            with ThreadPoolExecutor(8) as clients:
                list(clients.map(lambda scene: play(proxy, scene), shown))

            def noted() -> float:
                return proxy.count("kproxy_analyzed_exchanges_total") + proxy.count("kproxy_exchanges_left_out_total")

            assert proxy.count("kproxy_requests_total") == requests
            eventually(lambda: noted() == requests, what="all is analyzed, or left out", patience=600)
            analyzed = proxy.count("kproxy_analyzed_exchanges_total")
            eventually(
                lambda: proxy.count("kproxy_spans_total") == analyzed, what="all spans are exported", patience=600
            )
            for accept, parse in (("text/plain", of_prometheus), (OPENMETRICS, of_openmetrics)):
                assert max(scraped(proxy, accept, parse).values()) <= MOST_SERIES
            exported = proxy.count("kproxy_spans_total", 'outcome="exported"')
            pages = [proxy.get(page)[1] for page in ("/connections", "/filters", "/config", "/readyz")]
        finally:
            proxy.stop(patience=120)
        spans = collector.spans()
    assert all(map(str.isprintable, "".join(pages).split("\n")))
    log_lines = lines(
        tmp_path / "decoded.jsonl", is_safe=lambda line: min(line) >= " "
    )  # JSON escapes no more than that
    decoded = Counter(line["event"] for line in log_lines)
    assert decoded == {"exchange": analyzed}
    audited = lines(*tmp_path.glob("audit-?.jsonl"))
    assert {api: n for api, n in Counter(line.get("api") for line in audited).items() if n >= count} == {
        "CreateTopics": count,
        "JoinGroup": count,
    }
    decisions = lines(*tmp_path.glob("deny-?.jsonl"))
    denied = [line for line in decisions if line["event"] == "would be denied"]
    dropped = sum(
        line["count"] for line in decisions if line["event"] == "dropped"
    )  # by a disk that hangs, which is said
    assert len(denied) + dropped == count
    told = lines(proxy.log)
    assert any(line["event"] == "would be denied" for line in told)
    assert [line for line in told if line["level"] == "error"] == []
    assert len(spans) == exported
    texts = [text for span in spans for text in (span.name, *attributes(span).values()) if isinstance(text, str)]
    assert max(map(len, texts)) <= LONGEST_ATTRIBUTE + 20  # the name of the API before it
