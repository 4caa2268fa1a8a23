"""Hostile names through a running proxy: one event is one line, and a name stays a value, in each of its outputs.

20,000 names: `python -m pytest tests/chaos/test_hostile_names.py -m long`.
"""

import json
import secrets
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics
from prometheus_client.parser import text_string_to_metric_families as of_prometheus

from tests.chaos.conftest import FIXED
from tests.chaos.peers import ScriptedBroker
from tests.chaos.scenes import broker_of, play
from tests.support.canaries import Scene, named
from tests.support.hostile_names import EXCHANGES, NAMES_A_SCENE, hostile_names, scenes_of
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.otlp import attributes, http_collector

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
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
