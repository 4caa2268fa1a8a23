"""Tables of facts: versions of releases as Kafka's documentation and KIPs give them; error codes as its enum."""

from kproxy.analyses.facts import FACTS_TABLES, arrow_table, release_order


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
