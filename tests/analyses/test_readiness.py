"""readiness against what happened: the same clients were then run against Kafka 4.3.1, see tests/analyses/clients."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.analyses.report.verdicts import verdict_of
from kproxy.protocol import ApiKey
from tests.support.sampled import sampled
from tests.support.scenes import Rows
from tests.support.scenes.rows import few_rows

CLIENTS = sorted((Path(__file__).parent / "clients").glob("*-on-3.9.2.pcap.zst"))
SHARED = Path(__file__).parents[2] / "captures"
FAILED = {
    "kafka-node-5.0.0": "Produce v2",
    "sarama-1.42.1-version-0.8.2": "Produce v0",
}  # with 4.3.1, where the others did well


def readiness(capture: Path, target: str = "") -> list[dict[str, Any]]:
    with Database([capture]) as database:
        rows: list[dict[str, Any]] = database.run(library.load()["readiness"], target=target).to_pylist()
    return rows


@pytest.mark.parametrize("capture", sampled(CLIENTS, CLIENTS[::4]), ids=lambda path: path.name.partition("-on-")[0])
def test_the_clients_that_broke_are_those_that_it_names(capture: Path) -> None:
    name = capture.name.partition("-on-")[0]
    rows = [row for row in readiness(capture, "4.3") if row["asker"] == "client"]
    assert rows
    expected = ("will break", FAILED[name]) if name in FAILED else ("fine", None)
    assert {(row["verdict"], row["breaks_first"]) for row in rows} == {expected}


def test_nobody_breaks_by_the_release_that_they_were_run_with() -> None:
    for capture in CLIENTS[::5]:
        assert {row["verdict"] for row in readiness(capture, "3.9.2") if row["asker"] == "client"} == {"fine"}, capture


@pytest.mark.parametrize("name", ["08-old-broker-0.9-format0.pcap", "09-old-broker-0.10-format1.pcap"])
def test_old_clients_and_brokers(name: str) -> None:
    """KIP-896: 4.x answers clients of 2.1 and later, and its clients need brokers of 2.1 and later."""
    rows = readiness(SHARED / name, "4.0")
    offers = {"broker"} if "0.10" in name else set()  # 0.9 has no ApiVersions: nothing is said of what it can
    assert {row["asker"] for row in rows} == {"client", "broker to broker"} | offers
    judged = {row["verdict"] for row in rows if row["asker"] != "broker to broker"}
    assert judged <= {"will break", "may break"}
    assert [(row["verdict"], row["severity"]) for row in rows if row["asker"] == "broker to broker"] == [
        ("inside the cluster", "info")
    ]
    by_id = {row["client_id"]: row for row in rows}
    assert by_id["producer-1"]["breaks_first"].startswith("Produce v")
    assert "(message format 0 or 1, which Kafka 4.0 does not take" in by_id["producer-1"]["reason"]
    whom = "3 of 3 judged (2 clients, 1 broker)" if offers else "2 of 2 judged clients"
    words = verdict_of(library.load()["readiness"], pa.Table.from_pylist(rows))
    assert words.startswith(f"{whom} will break with Kafka 4.0; first: producer-1 ")
    assert by_id["1"]["breaks_first"].startswith("LeaderAndIsr")
    assert {row["verdict"] for row in readiness(SHARED / name, "2.0")} == {"fine"}
    assert max(row["severity"] for row in readiness(SHARED / name)) == "notice"  # "critical" only where somebody asked


def test_brokers_of_the_time_of_zookeeper_do_not_fail_a_build(tmp_path: Path) -> None:
    """The controller and a follower of Kafka 2.x, with the requests that they alone make; KIP-500 ended the first."""
    rows = Rows()
    controller = rows.client("1001")
    controller.ask(0, ApiKey.API_VERSIONS, api_version=0)
    controller.ask(1, ApiKey.LEADER_AND_ISR, api_version=2)
    controller.ask(1, ApiKey.UPDATE_METADATA, api_version=5)
    rows.client("broker-1002-fetcher-0").ask(2, ApiKey.FETCH, api_version=3, replica_id=1002)
    rows.client("1003").ask(2, ApiKey.CONTROLLED_SHUTDOWN, api_version=1)
    found = rows.answer(tmp_path, "readiness", target="4.0")
    assert {row["asker"] for row in found} == {"broker to broker"}
    assert {(row["verdict"], row["severity"], row["is_judged"]) for row in found} == {
        ("inside the cluster", "info", False)
    }


@pytest.mark.parametrize(
    ("api", "verdict"), [(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "fine"), (ApiKey.SHARE_FETCH, "may break")]
)
def test_a_client_does_without_an_optional_api_that_an_older_release_lacks(
    tmp_path: Path, api: ApiKey, verdict: str
) -> None:
    rows = Rows()
    client = rows.client("app", client_software_name="apache-kafka-java", client_software_version="4.1.0")
    client.ask(0, ApiKey.API_VERSIONS, api_version=4)
    client.ask(1, ApiKey.METADATA, api_version=9)
    client.ask(2, api, api_version=0)
    found = rows.answer(tmp_path, "readiness", target="3.5")
    assert [row["verdict"] for row in found if row["asker"] == "client"] == [verdict]


def test_requests_of_administrators_do_not_make_a_broker() -> None:
    rows = readiness(SHARED / "05-admin.pcap")
    assert {row["client_id"]: row["asker"] for row in rows}["adminclient-1"] == "client"


def test_a_release_that_is_not_known_is_said() -> None:
    rows = readiness(SHARED / "01-java-produce-consume-group.pcap", "7.0")
    assert [(row["asker"], row["client_id"], row["verdict"]) for row in rows] == [("release", "7.0", "may break")]
    assert "0.8.2 to 4." in rows[0]["reason"]
    assert verdict_of(library.load()["readiness"], pa.Table.from_pylist(rows)) == rows[0]["reason"]


@pytest.mark.parametrize(("first", "verdict"), [(0, "will break"), (40, "fine")])
def test_a_client_that_never_asked_for_versions_is_no_library_that_does(
    tmp_path: Path, first: int, verdict: str
) -> None:
    """SimpleConsumerShell of Kafka 0.8 asks for the same as kafka-python of an old broker; 40: its start was not seen."""
    rows = Rows()
    shell = rows.client("SimpleConsumerShell")
    for second, api in enumerate((ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH)):
        shell.ask(second, api, api_version=0, correlation_id=first)
    (row,) = (row for row in rows.answer(tmp_path, "readiness", target="4.0") if row["asker"] == "client")
    assert (row["verdict"], row["software"] is None) == (verdict, first == 0)


# Made by hand: what a client can is known only from what it used, and from its library


def judge(tmp_path: Path, *, offered: str | None, asked: Any, correlation_id: int = 0, **said: Any) -> tuple[str, str]:
    """The verdict about a client that asked for Produce in these versions, of a broker that offered a range of versions."""
    rows = Rows()
    client = rows.client("app", **said)
    if offered is not None:
        client.ask(0, ApiKey.API_VERSIONS, api_version=0, correlation_id=0, offered_versions=[f"0:{offered}", "3:0-5"])
    for version in asked if isinstance(asked, tuple) else (asked,):
        client.ask(1, ApiKey.PRODUCE, api_version=version, correlation_id=correlation_id, acks=1)
    with Database([rows.write(tmp_path / "tables")], reading=few_rows()) as database:
        found = database.run(library.load()["readiness"], target="4.0").to_pylist()
    row = next(row for row in found if row["asker"] == "client")
    assert row["severity"] == {"will break": "critical", "may break": "warning", "fine": "info"}[row["verdict"]]
    return row["verdict"], row["reason"]


def test_a_client_that_the_broker_held_down_may_go_higher(tmp_path: Path) -> None:
    verdict, reason = judge(tmp_path, offered="0-2", asked=2)
    assert verdict == "may break"
    assert "offers no more than v2, and what the library can is not known" in reason


def test_a_client_that_was_offered_more_showed_its_limit(tmp_path: Path) -> None:
    verdict, reason = judge(tmp_path, offered="0-7", asked=(7, 2, 2))
    assert verdict == "will break"
    assert reason.startswith("Produce v2: ")
    assert "offered up to v7, and the client asked for no more in 2 requests" in reason


def test_a_client_that_does_not_negotiate_will_not_go_higher(tmp_path: Path) -> None:
    verdict, reason = judge(tmp_path, offered=None, asked=2)
    assert verdict == "will break"
    assert "does not negotiate" in reason


def test_of_a_connection_without_its_beginning_that_is_not_known(tmp_path: Path) -> None:
    verdict, reason = judge(tmp_path, offered=None, asked=2, correlation_id=417)
    assert verdict == "may break"
    assert "what the broker here offers was not seen" in reason


KNOWN = [
    ("apache-kafka-java", "2.8.1", "fine", "the library speaks up to v9"),  # releases.txt: Produce v9 came with 2.8
    ("apache-kafka-java", "7.6.0-ccs", "fine", "the library speaks up to v9"),  # Confluent's 7.6 is Kafka 3.6
    ("apache-kafka-java", "9.9.9", "fine", "is newer than what kproxy knows"),
    ("librdkafka", "2.3.0", "fine", "the library speaks up to v7"),
    ("confluent-kafka-go", "1.9.2-rdkafka-1.9.2", "fine", "the library speaks up to v7"),
    ("kafka-node", "5.0.0", "will break", "the library speaks up to v2"),
    ("something-else", "1.0.0", "may break", "what the library can is not known"),
]


@pytest.mark.parametrize(("name", "version", "verdict", "words"), sampled(KNOWN, KNOWN[::3]))
def test_a_library_that_is_known_decides(tmp_path: Path, name: str, version: str, verdict: str, words: str) -> None:
    said = {"client_software_name": name, "client_software_version": version}
    found, reason = judge(tmp_path, offered="0-2", asked=2, **said)
    assert found == verdict
    assert words in reason


def test_a_newer_client_before_an_older_release(tmp_path: Path) -> None:
    """Java's clients of 4.0 and later speak no Produce below v3 (KIP-896), brokers of 0.11 none above it."""
    rows = Rows()
    client = rows.client("app", client_software_name="apache-kafka-java", client_software_version="4.1.0")
    client.ask(0, ApiKey.API_VERSIONS, api_version=4, offered_versions=["0:0-13"])
    client.ask(1, ApiKey.PRODUCE, api_version=13)
    with Database([rows.write(tmp_path / "tables")]) as database:
        readiness_ = library.load()["readiness"]
        verdicts = {
            target: next(
                r["verdict"] for r in database.run(readiness_, target=target).to_pylist() if r["asker"] == "client"
            )
            for target in ("0.10.2", "0.11.0", "3.9")
        }
    assert verdicts == {"0.10.2": "will break", "0.11.0": "fine", "3.9": "fine"}
