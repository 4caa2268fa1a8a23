"""Rows of connections: real captures against their manifest, and what is counted of events made by hand."""

import ipaddress

import pytest

from kproxy.output.tables.connections import MOST_CLIENT_IDS, Seen
from kproxy.session import BadFrame, Connection, Direction, Exchange, Gap, NotKafka, SaslToken
from tests.support.tables import MANIFEST, broker_log, query, tables_of

SASL = "06-sasl-scram.pcap"


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_there_is_a_row_a_connection_that_says_something(entry: dict[str, dict[str, int]]) -> None:
    tables = tables_of(str(entry["file"]))
    ((rows, ids),) = query(tables, "select count(*), count(distinct connection_id) from connections")
    assert rows == ids <= entry["transport"]["connections"]
    assert query(tables, "select 1 from exchanges anti join connections using (connection_id)") == []
    assert query(tables, "select sum(requests)::bigint from connections") == query(
        tables, "select count(*) from exchanges where request_at is not null"
    )
    assert query(tables, "select sum(request_bytes)::bigint, sum(response_bytes)::bigint from connections") == query(
        tables, "select sum(request_size)::bigint, sum(response_size)::bigint from exchanges"
    )


def test_the_user_is_the_principal_in_the_brokers_log() -> None:
    principals = {str(row["principal"]).removeprefix("User:") for row in broker_log(SASL)}
    rows = query(tables_of(SASL), "select distinct sasl_mechanism, user_name from connections")
    assert rows == [("SCRAM-SHA-256", principal) for principal in principals]


def test_tls_is_described() -> None:
    rows = query(
        tables_of("07-tls13-dsb.pcapng"), "select distinct tls_version, tls_decrypted, not_kafka from connections"
    )
    assert rows == [("TLS 1.3", True, None)]


def test_who_closed_a_connection() -> None:
    rows = query(tables_of("01-java-produce-consume-group.pcap"), "select distinct closed_by, closed from connections")
    assert rows == [("client", "finished")]


def test_addresses_are_addresses() -> None:
    connection = Connection(7, "[2001:db8::5]:51234", "10.0.0.9:9092")
    row = Seen(Gap(connection, 5), "a.pcap").row(None)
    assert row[1:7] == (7, "a.pcap", "2001:db8::5", 51234, "10.0.0.9", 9092)
    ipaddress.ip_address(row[3])


def test_events_are_counted() -> None:
    connection = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    seen = Seen(Gap(connection, 5), "a.pcap")
    seen.count(Gap(connection, 5, Direction.REQUEST, None, 10, 1))
    seen.count(Gap(connection, 6, Direction.REQUEST, 300, 1, 1))
    seen.count(BadFrame(connection, 7, Direction.REQUEST, "odd"))
    seen.count(SaslToken(connection, 8, Direction.REQUEST, 100))
    seen.count(NotKafka(connection, 9, "http"))
    assert (seen.gaps, seen.missing_bytes, seen.skipped_bytes, seen.bad_frames) == (2, 300, 11, 1)
    assert (seen.first_seen_at, seen.not_kafka) == (8, "http")


def test_client_ids_are_bounded() -> None:
    connection = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    seen = Seen(Gap(connection, 5), "a.pcap")
    for number in range(100):
        seen.count_exchange(Exchange(connection, number, client_id=f"c{number}"))
    assert list(seen.client_ids) == [f"c{number}" for number in range(MOST_CLIENT_IDS)]


def test_the_id_is_that_of_the_bytes_and_not_of_the_run() -> None:
    first = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    again = Connection(99, "10.0.0.5:51234", "10.0.0.9:9092")
    later = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    one, two, three = (Seen(Gap(c, at), "x").connection_id for c, at in ((first, 5), (again, 5), (later, 6)))
    assert one == two != three
    assert len(one) == 32
