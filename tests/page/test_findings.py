"""The analyses in the page say what kproxy report says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.analyses.analysis import View
from kproxy.analyses.duck import Database
from kproxy.errors import KproxyError
from kproxy.page.columns import COLUMNS
from kproxy.page.findings import Findings
from kproxy.page.recorded import Recorded
from kproxy.page.tables import Tabled
from kproxy.page.work import Cancelled, Work
from tests.page.asking import CAPTURE, opened
from tests.page.feeding import feed_of, live, send
from tests.page.test_tables import decoded_tables
from tests.support.command import kproxy
from tests.support.corpus import CAPTURES
from tests.support.kafka.processes import eventually
from tests.support.sampled import sampled


@pytest.fixture(scope="module")
def reported() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "report", "-q", "--format", "json", str(CAPTURE)],
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout)["analyses"])


NAMES = ["map", "rebalances", "lag", "inventory", "rebalance_storm", "stale_leader"]


@pytest.mark.parametrize("name", sampled(NAMES, ["rebalances"]))
def test_they_say_what_the_report_says(store: Recorded, reported: dict[str, Any], name: str) -> None:
    found = Findings(store).run(Work(), name)
    assert found is not None
    assert (found["verdict"], found["severity"]) == (reported[name]["verdict"], reported[name]["severity"])
    names = [column["name"] for column in found["columns"]]
    assert [dict(zip(names, row, strict=True)) for row in found["rows"]] == reported[name]["rows"]
    assert found["more"] == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_one_that_was_given_up_while_its_views_were_made_runs_when_it_is_asked_for_again(
    store: Recorded, reported: dict[str, Any], monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    findings, work = Findings(store), Work()

    def interrupted(database: Database, view: View) -> None:
        if is_late:
            make(database, view)
        work.cancel()
        raise KproxyError("as of a query that was interrupted")

    make = Database._execute_view
    with monkeypatch.context() as patched, pytest.raises(Cancelled):
        patched.setattr(Database, "_execute_view", interrupted)
        findings.run(work, "inventory")
    found = findings.run(Work(), "inventory")
    assert found is not None and found["verdict"] == reported["inventory"]["verdict"]


def test_who_waits_for_another_one_is_told_so(store: Recorded) -> None:
    findings = Findings(store)
    with findings._lock, pytest.raises(Cancelled, match="other analyses are run"):
        findings.run(Work(0.01), "inventory")


# What TLS hides is decrypted by a running proxy, so that its page has nothing of the packets of TLS, their times among it
PLAIN = sorted(path.name for path in CAPTURES.glob("*.pcap*") if "tls" not in path.name)


@pytest.mark.slow
def test_a_running_proxy_s_are_those_of_the_capture(tmp_path_factory: pytest.TempPathFactory) -> None:
    _same(tmp_path_factory, CAPTURES / "04-transactions.pcap", [*NAMES, "producer_fenced", "explain"])


@pytest.mark.long
@pytest.mark.parametrize("name", PLAIN)
def test_all_of_a_running_proxy_are_those_of_the_capture(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    _same(tmp_path_factory, CAPTURES / name, [])


def _same(tmp_path_factory: pytest.TempPathFactory, path: Path, ids: list[str]) -> None:
    """They are, value by value, but for the ids of connections, which the page gives itself; no *ids*: all there are."""
    folder = tmp_path_factory.mktemp("live")
    with opened(path) as capture, live(folder) as proxy:
        feed = feed_of(folder)
        send(feed, path)
        feed.close()
        eventually(lambda: not proxy.fed and proxy.last == capture.last, what="all exchanges")
        of_capture, of_proxy = Findings(capture), Findings(proxy)
        every = [one["id"] for one in of_capture.list()]
        assert len(every) > 50 and every == [one["id"] for one in of_proxy.list()]
        assert [said(of_proxy, one) for one in ids or every] == [said(of_capture, one) for one in ids or every]


def said(findings: Findings, name: str) -> tuple[Any, ...]:
    found = findings.run(Work(), name)
    assert found is not None
    names = [column["name"] for column in found["columns"]]
    kept = [at for at, column in enumerate(names) if column not in ("connection_id", "connection")]
    rows = sorted(json.dumps([row[at] for at in kept]) for row in found["rows"])
    return name, names, found["verdict"], found["severity"], rows, found["leftOut"], found["uncertain"]


@pytest.mark.slow
def test_of_tables_too(tmp_path: Any, reported: dict[str, Any]) -> None:
    with Tabled([decoded_tables(tmp_path / "tables")]) as tables:
        found = Findings(tables).run(Work(), "rebalances")
    assert found is not None and found["verdict"] == reported["rebalances"]["verdict"]


def test_the_exchange_that_a_finding_names(tmp_path: Any) -> None:
    """It is the one of its connection that has the error, in captures and in tables."""
    capture = CAPTURES / "04-transactions.pcap"
    tables = tmp_path / "tables"
    assert kproxy("decode", "-q", "--format", "parquet", "-o", tables, capture) == 0
    with opened(capture) as of_capture, Tabled([tables]) as of_tables:
        for store in (of_capture, of_tables):
            found = Findings(store).run(Work(), "producer_fenced")
            assert found is not None and len(found["numbers"]) == len(found["rows"]) > 0
            names = [column["name"] for column in found["columns"]]
            for row, number in zip(found["rows"], found["numbers"], strict=True):
                finding = dict(zip(names, row, strict=True))
                ((client_id, codes),) = store.look_up([number], [COLUMNS["clientId"], COLUMNS["errorCodes"]])
                assert client_id == finding["client_id"]
                assert set(codes) & {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
            mapped = Findings(store).run(Work(), "map")
            assert mapped is not None and mapped["numbers"] is None


def test_a_span_of_time(store: Recorded) -> None:
    findings = Findings(store)
    first, last = store.times()
    assert first is not None and last is not None

    def requests(start: int | None, end: int | None) -> int:
        found = findings.run(Work(), "inventory", start, end)
        assert found is not None
        at = [column["name"] for column in found["columns"]].index("connections")
        return sum(row[at] for row in found["rows"])

    everything = requests(None, None)
    assert requests(first, last) == everything > 0
    assert requests(last + 10**12, last + 2 * 10**12) == 0
    assert [requests(first, last + n) for n in range(6)] == [everything] * 6  # more spans than are kept


def test_the_list_and_a_name_that_is_none(store: Recorded) -> None:
    findings = Findings(store)
    listed = {one["id"]: one for one in findings.list()}
    assert set(NAMES) <= set(listed) and listed["stale_leader"]["finding"] and not listed["map"]["finding"]
    assert "hot_keys" not in listed  # it reads records
    assert findings.run(Work(), "nothing") is None
