"""Harm that no error code shows: each symptom is found, and its look-alike is not; all clients are in one database."""

from collections.abc import Callable
from pathlib import Path

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES
from kproxy.protocol import ApiKey
from tests.support.scenes.rows import Client, Rows, moment

Connect = Callable[..., Client]
SYMPTOMS: dict[str, Callable[[Connect, str, bool], None]] = {}


def symptom(play: Callable[[Connect, str, bool], None]) -> Callable[[Connect, str, bool], None]:
    """Add a symptom: what connects a client, a name of its own, and whether it is the incident."""
    SYMPTOMS[play.__name__] = play
    return play


@symptom
def requests_without_an_answer_for_good(connect: Connect, name: str, bad: bool) -> None:
    """Look-alike: one is on its way when the capture ends."""
    for number in range(6 if bad else 1):
        at = number * 30 if bad else 290
        end = {"closed_by": "client", "closed_at": moment(at + 30)} if bad else {"closed": "end of capture"}
        client = connect(**end)
        client.ask(at, ApiKey.METADATA)
        why = "the connection ended" if bad else "the capture ended"
        client.ask(at + 0.1, ApiKey.PRODUCE, topics=[name], unanswered=why)


@symptom
def closed_by_the_broker_after_the_same_request_each_time(connect: Connect, name: str, bad: bool) -> None:
    """Look-alike: once, and it is answered on the next connection."""
    for number in range(12 if bad else 1):
        at = number * 5
        client = connect(closed_by="broker", closed_at=moment(at + 1.1))
        client.ask(at, ApiKey.API_VERSIONS)
        client.ask(at + 0.1, ApiKey.METADATA)
        client.ask(at + 1, ApiKey.PRODUCE, topics=[name], unanswered="the connection ended")
    if not bad:
        client = connect()
        for second in range(2, 60):
            client.produce(second, name)


@symptom
def a_consumer_that_fetches_and_never_advances(connect: Connect, name: str, bad: bool) -> None:
    """Look-alike: it is at the end, and nothing is produced."""
    client = connect()
    for second in range(60):
        client.fetch(second, name, 41, end=100 if bad else 41)


@symptom
def a_client_that_only_asks_for_metadata(connect: Connect, name: str, bad: bool) -> None:
    """Look-alike: an idle one, every minute."""
    client = connect()
    client.ask(0, ApiKey.API_VERSIONS)
    for number in range(1, 200 if bad else 5):
        client.ask(number if bad else number * 60, ApiKey.METADATA, topics=[name], described_topics=[name])


@symptom
def a_member_that_joins_and_never_syncs(connect: Connect, name: str, bad: bool) -> None:
    """Look-alike: it does, and stays."""
    client = connect()
    for number in range(15 if bad else 1):
        words = {"member_id": "m", "response_generation": number + 1, "session_timeout_ms": 10_000}
        client.group(number * 10, "join", name, **words)
    if not bad:
        client.group(0.1, "sync", name, api=ApiKey.SYNC_GROUP, member_id="m", generation=1, response_generation=1)
        for second in range(3, 150, 3):
            client.ask(second, ApiKey.HEARTBEAT, group_id=name, member_id="m")


@symptom
def answers_that_become_slower_and_slower(connect: Connect, name: str, bad: bool) -> None:
    """Look-alike: all take as long as at the beginning."""
    client, at = connect(), 0.0
    for number in range(150):
        seconds = 0.005 * (1.045**number if bad else 1)
        client.ask(at, ApiKey.PRODUCE, seconds=seconds, topics=[name], acks=-1, records=1)
        at += seconds + 0.2


@symptom
def commits_that_stand_still_while_fetches_go_on(connect: Connect, name: str, bad: bool) -> None:
    """Look-alike: they follow."""
    client = connect()
    for second in range(300):
        client.fetch(second, name, 10 * second, end=10 * second + 10, count=10)
        if second % 5 == 0:
            client.commit(second + 0.5, name, name, 7 if bad else 10 * second + 10)


def test_each_symptom_is_found_and_its_look_alike_is_not(tmp_path: Path) -> None:
    tables = Rows()
    addresses: dict[str, tuple[str, bool]] = {}
    for number, (name, play) in enumerate(SYMPTOMS.items()):
        for bad in (True, False):
            address, broker = f"10.7.{number}.{5 + bad}", f"10.8.{number}.{5 + bad}"
            addresses[address] = name, bad

            def connect(address: str = address, broker: str = broker, **columns: object) -> Client:
                return tables.client(address, address, broker_address=broker, **columns)

            play(connect, f"{name}-{bad}", bad)
            other = tables.client("other", f"10.9.{number}.{5 + bad}", broker_address=broker)
            for second in range(0, 300, 3):
                other.produce(second, f"fine-{number}-{bad}")
    found: dict[tuple[str, bool], set[str]] = {each: set() for each in addresses.values()}
    with Database([tables.write(tmp_path / "tables")], wanted=TABLES) as database:
        for finding in library.load().values():
            for row in database.run(finding).to_pylist() if finding.is_finding else []:
                address = row.get("client_address")
                if address in addresses and (row.get("severity") or finding.severity) in ("warning", "critical"):
                    found[addresses[address]].add(finding.id)
    assert {each for each, findings in found.items() if bool(findings) != each[1]} == set(), found
