"""Eleven answers that were once untrue, a row each: what is said now is what was true. ``pytest tests/truth -k table``."""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.command import report_json
from tests.support.corpus import CAPTURES
from tests.support.rotated import packets_of
from tests.support.scenes import Rows
from tests.support.scenes.rows import moment
from tests.truth.__main__ import STORED
from tests.truth.brokers import cluster_id

Said = list[dict[str, Any]]
USED = ("no-login-java", "idle-member", "few-acks", "slow-records")
KAFKA_PORT, TO_PORT = (
    9092,
    36,
)  # where an Ethernet frame with IPv4 and TCP, both without options, has its port of destination


@cache
def stored() -> dict[str, Said]:
    """What is said of some captures of the truth lab."""
    only = [word for name in ("reconnect_loop", "rebalances", "explain") for word in ("--only", name)]
    made = report_json(*only, "--separate", *(STORED / f"{name}.pcapng.gz" for name in USED))
    return {name: found["rows"] for name, found in made["analyses"].items()}


def leader_moved(folder: Path) -> None:
    """Two OUT_OF_ORDER answers to an idempotent producer, then all is acknowledged: nothing is lost."""
    tables = Rows()
    producer = tables.client("shop")
    batch = {"count": 30, "producer_id": 42, "producer_epoch": 0}
    producer.produce(0, "orders", appended_offset=0, base_sequence=0, **batch)
    for at in (0.1, 0.2):
        late = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        producer.produce(at, "orders", error_code=late, base_sequence=60, **batch)
    for number in (1, 2, 3):
        producer.produce(0.3 + number, "orders", appended_offset=30 * number, base_sequence=30 * number, **batch)
    (row,) = tables.answer(folder, "sequence_errors")
    assert (row["severity"], row["errors"], row["lost"]) == ("info", 2, 0)
    assert tables.answer(folder, "lost_records") == []


def ladder_of_versions(folder: Path) -> None:
    """Produce v2 twice and Fetch v3 three times at a broker that offers far more: Kafka 4.0 refuses both."""
    tables = Rows()
    for name, api, version, times in (("writes", ApiKey.PRODUCE, 2, 2), ("reads", ApiKey.FETCH, 3, 3)):
        client = tables.client(name)
        client.ask(0, ApiKey.API_VERSIONS, api_version=3, offered_versions=["0:0-10", "1:0-16", "3:0-12"])
        for number in range(times):
            client.ask(1 + number, api, api_version=version)
    source = tables.write(folder / "tables")
    words = ["report", "-q", "--only", "readiness", "--target", "4.0", "--format", "json", str(source)]
    done = subprocess.run([sys.executable, "-m", "kproxy", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    rows = json.loads(done.stdout)["analyses"]["readiness"]["rows"]
    breaks = {row["client_id"]: row["breaks_first"] for row in rows if row["verdict"] == "will break"}
    assert breaks == {"writes": "Produce v2", "reads": "Fetch v3"}


def scala_tools(folder: Path) -> None:
    """The consumer of Kafka 0.8 is no library of Python, and breaks for ever."""
    tables = Rows()
    client = tables.client("SimpleConsumerShell")
    for at, api in enumerate((ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH, ApiKey.FETCH)):
        client.ask(at, api, api_version=0, correlation_id=0 if api == ApiKey.METADATA else at)
    (row,) = (row for row in tables.answer(folder, "readiness", target="4.0") if row["asker"] == "client")
    assert row["verdict"] == "will break"
    assert "python" not in str(row["software"]).lower()


def held_down_by_an_old_broker(folder: Path) -> None:
    """Two of five clients negotiate: three break."""
    tables = Rows()
    for number in range(5):
        library = {"client_software_name": "librdkafka", "client_software_version": "2.3.0"} if number < 2 else {}
        client = tables.client(f"app-{number}", f"10.0.0.{number + 1}", **library)
        if library:
            client.ask(0, ApiKey.API_VERSIONS, api_version=3, offered_versions=["0:0-2", "3:0-5"])
        client.ask(1, ApiKey.PRODUCE, api_version=2, correlation_id=1 if library else 0, acks=1)
    ready = tables.answer(folder, "readiness", target="4.0")
    breaks = {row["client_id"] for row in ready if row["asker"] == "client" and row["verdict"] == "will break"}
    assert breaks == {"app-2", "app-3", "app-4"}


def one_direction(folder: Path) -> None:
    """Of a broker whose answers are not in the capture nothing is said, and no request went without an answer."""
    whole = packets_of("01-java-produce-consume-group.pcap")
    half = folder / "half.pcap"
    kept = [p for p in whole.packets if struct.unpack_from(">H", p, 16 + TO_PORT)[0] == KAFKA_PORT]
    assert 0 < len(kept) < len(whole.packets)
    half.write_bytes(whole.head + b"".join(kept))
    made = report_json("--all", half)["analyses"]
    assert made["map"]["rows"]
    assert {row["asker"] for row in made["readiness"]["rows"]} == {"client"}
    assert {
        name for name, found in made.items() if found["rows"] and found["severity"] in {"critical", "warning"}
    } == set()


def wrong_listener(folder: Path) -> None:
    """Clear text at a listener of TLS, and no login at one of SASL: the cause is named."""
    tables = Rows()
    for number in range(3):
        client = tables.client("clear", not_kafka="tls", closed_by="broker")
        client.ask(number, ApiKey.API_VERSIONS, unanswered="closed")
    (row,) = tables.answer(folder, "reconnect_loop")
    assert (row["client_id"], row["cause"]) == ("clear", "clear text to a TLS listener")
    (row,) = (row for row in stored()["reconnect_loop"] if row["cause"] != "unknown")
    assert (row["client_id"], row["cause"]) == ("open", "no login at a listener of SASL")


def reconnects(folder: Path) -> None:
    """59 connections in ten seconds that only look up Metadata."""
    tables = Rows()
    for number in range(59):
        tables.client("app", closed_by="client").ask(number / 6, ApiKey.METADATA)
    (row,) = tables.answer(folder, "reconnect_loop")
    assert (row["connections"], row["severity"]) == (59, "warning")


def broker_killed(folder: Path) -> None:
    """Which broker went away, when, and how long its clients needed; of two listeners one that answers is enough."""
    for gone in (True, False):
        tables = Rows()
        for number in (1, 2):
            host, name = f"10.0.7.{number}", f"shop-{number}"
            ended = {"broker_address": "10.0.7.90", "closed_by": "broker", "closed_at": moment(10)}
            client = tables.client(name, host, broker_port=9091 + number, **ended)
            client.ask(9, ApiKey.METADATA, advertised=[f"1 10.0.7.90:{9091 + number}", "2 10.0.7.91:9092"])
            client.produce(9.5, "orders", number)
            elsewhere = tables.client(name, host, broker_address="10.0.7.91", closed="end of capture")
            elsewhere.produce(10 + 3 * number, "orders", number)
            elsewhere.produce(40, "orders", number)
        if not gone:
            tables.client("shop-3", broker_address="10.0.7.90", broker_port=9093).produce(11, "orders")
        rows = tables.answer(folder / str(gone), "broker_away")
        assert {(row["broker"], row["how"], row["went_at"], row["brokers_in_turn"]) for row in rows} == (
            {("10.0.7.90:9092", "closed its connections", moment(10), 1)} if gone else set()
        )
        needed = {row["client_id"]: row["needed_ms"] // 1000 for row in rows}
        assert needed == ({"shop-1": 3, "shop-2": 6} if gone else {})


def three_join(_: Path) -> None:
    """Three members join in one rebalance."""
    first = min(
        (row for row in stored()["rebalances"] if row["cluster"] == cluster_id("idle-member")),
        key=lambda row: row["began_at"],
    )
    assert (first["joined"], first["members_after"]) == (3, 3)


def linger(_: Path) -> None:
    """Traffic cannot show linger.ms: no value is given, whatever it was."""
    rows = [row for row in stored()["explain"] if "linger.ms" in row["setting"]]
    assert len(rows) > 1
    assert {row["value"] for row in rows} == {None}


def cut_by_editcap(folder: Path) -> None:
    """Files of sixty packets are one capture: as many connections, unanswered requests and rebalances as the whole."""
    whole = CAPTURES / "03-classic-rebalance-range.pcap"
    packets = packets_of(whole.name)
    for number, first in enumerate(range(0, len(packets.packets), 60)):
        (folder / f"part-{number:03}.pcap").write_bytes(packets.file(first, first + 60))
    parts, one = (report_json("--all", source) for source in (folder, whole))
    assert number > 1
    assert _counts(parts) == _counts(one)


def _counts(made: dict[str, Any]) -> Any:
    rows = made["analyses"]
    connections = sum(row["connections"] for row in rows["inventory"]["rows"])
    causes = [(row["began_at"], row["cause"], row["joined"]) for row in rows["rebalances"]["rows"]]
    return connections, rows["unanswered_requests"]["rows"], causes


ROWS: tuple[Callable[[Path], None], ...] = (
    leader_moved,
    ladder_of_versions,
    scala_tools,
    held_down_by_an_old_broker,
    one_direction,
    wrong_listener,
    reconnects,
    broker_killed,
    three_join,
    linger,
    cut_by_editcap,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_promise_33_a_row_of_the_table_holds(row: Callable[[Path], None], tmp_path: Path) -> None:
    row(tmp_path)
