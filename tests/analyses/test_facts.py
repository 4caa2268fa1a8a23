"""Tables of facts: versions of Kafka's releases and of client libraries, and which library a client is."""

import functools
from itertools import pairwise
from pathlib import Path
from typing import Any

from kproxy.analyses.analysis import View
from kproxy.analyses.duck import Database
from kproxy.analyses.facts import (
    FACTS_TABLES,
    arrow_table,
    client_versions,
    last_order,
    libraries,
    release_order,
    version_order,
)
from kproxy.analyses.loading import Reading
from kproxy.protocol import ApiKey
from tests.support.scenes import Rows


def versions(release: str) -> dict[str, tuple[int, int]]:
    return {name: (low, high) for found, _, name, low, high in FACTS_TABLES["api_versions"].rows() if found == release}


def test_the_newest_versions_of_a_release() -> None:
    assert versions("2.3")["Fetch"][1] == 11  # KIP-392
    assert versions("2.4")["Produce"][1] == 8  # KIP-467
    assert versions("2.8")["Metadata"][1] == 11
    assert "ConsumerGroupHeartbeat" not in versions("3.4")


def test_the_oldest_versions_that_kafka_4_removed() -> None:
    """KIP-896's table of what remains."""
    assert versions("3.9")["Fetch"][0] == 0
    kept = versions("4.0")
    assert {name: kept[name][0] for name in ("Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch")} == {
        "Produce": 3, "Fetch": 4, "ListOffsets": 1, "OffsetCommit": 2, "OffsetFetch": 1,
    }  # fmt: skip
    assert kept["CreateTopics"][0] == 2
    assert "LeaderAndIsr" not in kept


def test_what_is_unstable_is_not_offered() -> None:
    assert "ConsumerGroupHeartbeat" not in versions("3.5")
    assert versions("3.6")["OffsetCommit"][1] == 8
    assert versions("3.7")["OffsetCommit"][1] == 9
    assert versions("4.0")["ConsumerGroupHeartbeat"] == (0, 1)


def test_releases_sort_by_age() -> None:
    names = [release for release, _ in FACTS_TABLES["releases"].rows()]
    assert (
        names.index("0.9.0") < names.index("0.10.2") < names.index("0.11.0") < names.index("1.0") < names.index("4.0")
    )
    assert names == sorted(names, key=release_order)
    assert names[-1] == "4.3"


def test_error_codes_are_kafkas() -> None:
    rows = {row["code"]: row for row in arrow_table("error_codes").to_pylist()}
    assert (rows[16]["name"], rows[16]["retriable"]) == ("NOT_COORDINATOR", True)
    assert rows[-1]["name"] == "UNKNOWN_SERVER_ERROR"


CAPTURES = Path(__file__).parent / "clients"
# capture -> software and version of the client that joins the group; None: as many versions would do the same
SAID = {
    "librdkafka-2.0.2": ("confluent-kafka-python", "2.0.2-rdkafka-2.0.2"),
    "librdkafka-2.16.0": ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"),
    "franz-go-1.18.0": ("kgo", "v1.18.0"),
    "kafka-python-2.1.5": ("kafka-python", "2.1.5"),
    "kafka-python-3.0.12": ("kafka-python", "3.0.12"),
}
INFERRED = {
    "kafka-python-1.4.7": ("kafka-python", "1.4.7", "client id"),
    "kafka-python-2.0.2": ("kafka-python", "2.0.2", "client id"),
    "aiokafka-0.10.0": ("aiokafka", "0.10.0", "client id"),
    "kafkajs-1.15.0": ("kafkajs", "1.15.0 or later", "API versions"),
    "kafkajs-2.2.4": ("kafkajs", "1.15.0 or later", "API versions"),
    "kafka-node-5.0.0": ("kafka-node", "4.0.0 or later", "API versions"),
    "sarama-1.42.1": ("sarama", "1.40.0 or later", "API versions"),
    "kafka-go-0.4.47": ("kafka-go", None, "client id"),
}
PRODUCERS = {  # ids of their producers do not say the version
    "kafka-python-1.4.7": ("kafka-python", "1.4.0 to 1.4.7"),
    "kafka-python-2.0.2": ("kafka-python", "2.0.0 to 2.0.6"),
    "aiokafka-0.10.0": ("aiokafka", "0.9.0 to 0.12.0"),
    "aiokafka-0.14.0": ("aiokafka", "0.13.0 or later"),
}


@functools.cache
def clients(name: str) -> list[dict[str, Any]]:
    """The rows of the view of a capture; joins, produces: which of these requests the connection has."""
    sent = "c.connection_id IN (SELECT connection_id FROM exchanges WHERE api_key = {})"
    sql = f"SELECT c.*, {sent.format(11)} AS joins, {sent.format(0)} AS produces FROM clients c"
    with Database([CAPTURES / f"{name}-on-3.9.2.pcap.zst"]) as database:
        rows: list[dict[str, Any]] = database.select(View(name="asked", meaning="", sql=sql, path="")).to_pylist()
    return rows


def found(name: str, who: str, *columns: str) -> set[tuple[object, ...]]:
    return {tuple(row[column] for column in columns) for row in clients(name) if row[who]}


def test_software_that_says_its_name_is_taken_at_its_word() -> None:
    for name, said in SAID.items():
        assert found(name, "joins", "software", "software_version") == {said}
        assert not all(row["inferred"] for row in clients(name)), name


def test_software_that_does_not_is_inferred() -> None:
    for name, inferred in INFERRED.items():
        shown = found(name, "joins", "software", "software_version", "evidence", "inferred")
        assert shown == {(*inferred, True)}, name


def test_producers_are_known_by_the_versions_that_they_ask_for() -> None:
    for name, software in PRODUCERS.items():
        shown = found(name, "produces", "software", "software_version", "evidence", "inferred")
        assert shown == {(*software, "API versions", True)}, name


def test_a_client_that_asks_as_no_known_library_does_stays_unknown() -> None:
    """sarama told to speak as in 0.8.2: Produce v0 and Metadata v0 are too few to tell."""
    assert found("sarama-1.42.1-version-0.8.2", "produces", "software", "inferred", "library") == {(None, False, None)}


def test_java_begins_to_count_at_0(tmp_path: Path) -> None:
    """kafka-python that is told a release asks for the versions that Java's clients of that release ask for."""
    tables = Rows()
    asks = (
        (ApiKey.API_VERSIONS, 0),
        (ApiKey.METADATA, 2),
        (ApiKey.PRODUCE, 2),
        (ApiKey.FETCH, 3),
        (ApiKey.JOIN_GROUP, 1),
    )
    for number in (0, 1):
        client = tables.client(f"from-{number}")
        for at, (api, version) in enumerate(asks):
            client.ask(at, api, api_version=version, correlation_id=at + number)
    rows = {row["client_id"]: row["software"] for row in tables.answer(tmp_path, "inventory")}
    assert rows == {"from-0": "apache-kafka-java", "from-1": None}


def test_a_name_is_not_taken_from_another_system_at_the_same_address() -> None:
    """05 has a producer-1 of Kafka 4.3.1 on loopback, 08 and 09 each one that is older and does not say its name."""
    shared = Path(__file__).parents[2] / "captures"
    files = ["05-admin.pcap", "08-old-broker-0.9-format0.pcap", "09-old-broker-0.10-format1.pcap"]
    with Database([shared / name for name in files], reading=Reading(separate=True)) as database:
        sql = (
            "SELECT DISTINCT k.capture, c.software_version FROM clients c JOIN connections k "
            "ON k.connection_id = c.connection_id WHERE c.client_id = 'producer-1'"
        )
        rows = [
            tuple(row.values()) for row in database.select(View(name="q", meaning="", sql=sql, path="")).to_pylist()
        ]
    assert dict(rows) == dict(zip(files, ("4.3.1", "0.9.0", "0.10.1 to 0.10.2"), strict=True))
    assert len(rows) == len(files)


def test_every_range_is_one() -> None:
    for library in libraries():
        assert version_order(library.first) <= last_order(library.last), library.name
        assert all(0 <= low <= high for low, high in library.ranges.values()), library.name


def test_ranges_of_a_library_do_not_overlap() -> None:
    """Else a client would be taken for two of its versions at once."""
    names = {library.name for library in libraries()}
    for name in names:
        ends = [(version_order(each.first), last_order(each.last)) for each in libraries() if each.name == name]
        assert all(before[1] < after[0] for before, after in pairwise(ends)), name


def test_java_clients_ask_for_what_brokers_of_their_release_answer() -> None:
    newest = {("2.1", 0): 7, ("2.1", 24): 1, ("4.0", 0): 12, ("4.0", 24): 5, ("0.8.2", 0): 0}
    rows = client_versions(newest, ("0.8.2", "2.1", "4.0"))
    java = [row for row in rows if row[0] == "apache-kafka-java"]
    assert java == [
        ("apache-kafka-java", "2.1", "2.1", 2_001_000, 2_001_999, True, 0, 7, 7),
        ("apache-kafka-java", "2.1", "2.1", 2_001_000, 2_001_999, True, 24, 1, 1),
        ("apache-kafka-java", "4.0", "4.0", 4_000_000, 4_000_999, True, 0, 11, 12),
        (
            "apache-kafka-java",
            "4.0",
            "4.0",
            4_000_000,
            4_000_999,
            True,
            24,
            3,
            3,
        ),  # v4 and later is for brokers (KIP-890)
    ]
