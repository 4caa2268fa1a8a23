"""The tables of the manual that are facts: made when a topic is read, so that they cannot go stale."""

from collections.abc import Callable, Iterable, Iterator

from kproxy.analyses.facts import FACTS_TABLES
from kproxy.output.tables.contracts import TABLES
from kproxy.protocol.vocabulary import table_rows

RELEASES = ("0.8.2", "0.9.0", "0.11.0", "1.1", "2.0", "2.8", "3.9", "4.0", "4.3")
APIS = (
    *("Produce", "Fetch", "Metadata", "OffsetCommit", "JoinGroup", "ConsumerGroupHeartbeat", "ShareFetch"),
    "LeaderAndIsr",
)


def versions() -> str:
    """One row per API, one column per release of Kafka: the versions that its brokers offer. The last row counts all APIs."""
    offered: dict[tuple[str, str], str] = {}
    for release, _, name, least, most in FACTS_TABLES["api_versions"].rows():
        offered[str(release), str(name)] = str(least) if least == most else f"{least}-{most}"
    rows = [
        *([name, *(offered.get((release, name), "") for release in RELEASES)] for name in APIS),
        ["*APIs in all*", *(str(sum(at == release for at, _ in offered)) for release in RELEASES)],
    ]
    return _table(["API", *RELEASES], rows)


def fields() -> str:
    """One row per field of conditions: its type, where it is known, and what it means."""
    rows = ([f"`{name}`", kind, known_in, meaning] for name, kind, meaning, known_in in table_rows())
    return _table(["field", "type", "known in", "meaning"], rows)


def columns() -> str:
    """One section per table of SQL: what a row is, then its columns."""
    return "\n".join(_columns_of(name) for name in TABLES)


def _columns_of(name: str) -> str:
    table = TABLES[name]
    rows = ([f"`{column.name}`", column.type, column.explained] for column in table.columns)
    return f"## {name}\n\nA row is {table.row}.\n\n{_table(['column', 'type', 'meaning'], rows)}"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    def lines() -> Iterator[str]:
        for row in (head, ["---"] * len(head), *rows):
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n"

    return "".join(lines())


MAKERS: dict[str, Callable[[], str]] = {"columns": columns, "fields": fields, "versions": versions}
