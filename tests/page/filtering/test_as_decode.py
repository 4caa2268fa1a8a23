"""The page selects what ``kproxy decode --where`` shows: conditions made at random, over captures, logs, tables, and live."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from kproxy.errors import OptionError
from kproxy.output.bodies import Bodies
from kproxy.output.exchange_line import read_bodies
from kproxy.output.where import CHEAP, Where
from kproxy.page.filtering.filter import FilterError
from kproxy.page.filtering.parts import as_cel
from kproxy.page.store import Store
from kproxy.page.tables import Tabled
from kproxy.page.work import Work
from kproxy.pipeline.inputs import find_inputs
from kproxy.pipeline.output import Output
from kproxy.pipeline.run import Options, Run
from kproxy.session import Event, Exchange
from tests.page.asking import opened
from tests.page.feeding import feed_of, live, sent
from tests.page.filtering.made_conditions import Maker
from tests.support.command import kproxy
from tests.support.corpus import CAPTURES
from tests.support.kafka.processes import eventually

SOURCES = [
    CAPTURES / name
    for name in (
        "01-java-produce-consume-group.pcap",
        "06-sasl-scram.pcap",
        "11-lossy-network.pcap",
        "12-midstream-start.pcap",
    )
]
WRONG = "an error"


class Kept(Output):
    """Keeps exchanges and their bodies."""

    reads_bodies = True

    def __init__(self) -> None:
        self.events: list[tuple[Exchange, Bodies | None]] = []

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if isinstance(event, Exchange):
            self.events.append((event, bodies or read_bodies(event)))

    def flush(self) -> None: ...

    def close(self, error: BaseException | None = None) -> None: ...


@cache
def events() -> list[tuple[Exchange, Bodies | None]]:
    kept = Kept()
    with Run(Options(), [kept]) as run:
        read_all(run)
    return kept.events


def read_all(run: Run) -> None:
    for files in find_inputs(SOURCES).files:
        with files.open() as source:
            for _ in run.read(source):
                pass


def shown(condition: str) -> list[int] | str:
    """What ``kproxy decode --where`` shows, by number; or that it gives up."""
    try:
        where = Where(condition)
        return [number for number, (event, bodies) in enumerate(events(), 1) if where(event, bodies)]
    except OptionError:
        return WRONG


def selected(store: Store, condition: str) -> list[int] | str:
    try:
        found = store.selected(Work(), condition)
    except FilterError as error:
        return f"{error}" if "tables" in str(error) else WRONG
    assert found is not None
    return list(found.numbers.to_pylist())


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Store]]:
    folder = tmp_path_factory.mktemp("as-decode")
    log, tables = folder / "a.jsonl", folder / "tables"
    assert kproxy("decode", "-q", "--format", "jsonl", "-o", log, *SOURCES) == 0
    assert kproxy("decode", "-q", "--format", "parquet", "--bodies", "-o", tables, *SOURCES) == 0
    with opened(*SOURCES) as capture, opened(log) as of_log, Tabled([tables]) as tabled, live(folder) as running:
        feed = feed_of(folder)
        with Run(Options(), [feed]) as run:
            read_all(run)
            sent(feed)
        eventually(lambda: running.last == len(events()))
        yield {"capture": capture, "log": of_log, "tables": tabled, "live": running}


def differences(stores: dict[str, Store], seed: int, count: int) -> Iterator[tuple[str, str, Any, Any]]:
    """Conditions of which a store selects others than decode shows."""
    maker = Maker(seed, samples_of())
    for _ in range(count):
        condition = maker.condition()
        if len(condition) > 3_000:
            continue
        expected = shown(as_cel(condition))  # the page searches for the text of a lone string, which is no condition
        for name, store in stores.items():
            if name == "live" and re.search(r"\bconnection\b", condition):
                continue  # a feed numbers connections itself
            found = selected(store, condition)
            if found != expected and not (name == "tables" and isinstance(found, str) and found != WRONG):
                yield name, condition, expected, found


def samples_of() -> list[dict[str, Any]]:
    return [{name: value(event) for name, value in CHEAP.items()} for event, _ in events()[::3]]


@pytest.mark.slow
def test_the_same_exchanges_of_all_sources(stores: dict[str, Store]) -> None:
    assert list(differences(stores, 1, 150)) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_of_ten_thousand_conditions(stores: dict[str, Store], seed: int) -> None:
    assert list(differences(stores, 100 + seed, 1_000)) == []
