"""What filters get of the proxy."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kproxy.errors import UsageError
from kproxy.filters.contract import ClientMetric
from kproxy.filters.telemetry.filter import LONGEST_KEY, LONGEST_NAME, LONGEST_VALUE
from kproxy.options import OtlpEndpoint, Rotated
from kproxy.proxy.filter_runtime import FilterRuntime, Journals
from kproxy.proxy.messages import LONGEST_LINE, ClientMetrics, Learned, Message, ToSupervisor
from kproxy.proxy.otlp.exporter import Exporters
from kproxy.proxy.shared_state import (
    CALLS,
    GROUPS,
    SLOTS,
    SPENT_NS,
    TIMES_START,
    VALUES_A_MESSAGE,
    WAYS,
    FilterCount,
    LearnedSets,
    SharedCounts,
    SharedSets,
    SharedTimes,
    in_parts,
)
from kproxy.proxy.tap.sealed import create_sealed
from tests.support.corpus import ROOT
from tests.support.otlp import http_collector


def test_one_journal_for_a_path_in_a_worker(tmp_path: Path) -> None:
    journals = Journals(3)
    one, other = FilterRuntime("a", journals), FilterRuntime("b", journals)
    file = Rotated(path=str(tmp_path / "audit.jsonl"))
    assert one.journal(file) is other.journal(file)
    assert (one.worker, one.cluster) == (3, "a")
    assert one.journal(file).take() == 1
    journals.close()


def test_a_warning_names_the_cluster(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        FilterRuntime("orders", Journals()).warn("it is so", "for\nthis")
    (record,) = caplog.records
    assert record.getMessage() == "it is so"
    assert record.__dict__["keys"] == {"cluster": "orders", "reason": "for\nthis"}


def test_counts_are_of_the_cluster_and_shared_by_name() -> None:
    counts = SharedCounts.create()
    one, other = (FilterRuntime(name, Journals(), counts=counts) for name in ("a", "b"))
    assert [one.shared_count("f", "e", "n").add(2), other.shared_count("f", "e", "n").add()] == [2, 1]
    assert FilterRuntime("a", Journals(), counts=counts).shared_count("f", "e", "n").value == 2
    assert FilterRuntime("a", Journals()).shared_count("f", "e", "n").value == 0


def test_the_time_of_filters_is_counted_over_all_workers() -> None:
    counts = SharedCounts.create()
    for _ in range(2):
        FilterRuntime("a", Journals(), counts=counts).count_time("audit", 1_500, 3)
    FilterRuntime("a", Journals()).count_time("audit", 1_500, 3)  # without counts: nothing
    found = {(one.cluster, one.filter, one.event): one.count for one in counts.rows()}
    assert found == {("a", "audit", SPENT_NS): 3_000, ("a", "audit", CALLS): 6}


def test_time_goes_on() -> None:
    runtime = FilterRuntime("a", Journals())
    before = runtime.monotonic()
    asyncio.run(asyncio.wait_for(runtime.sleep(0.001), 10))
    assert runtime.monotonic() - before >= 0.001
    assert runtime.now() > 1_700_000_000


def test_what_a_client_measures_goes_to_the_supervisor_in_messages_that_fit_a_line() -> None:
    sent: list[Message] = []
    runtime = FilterRuntime("orders", Journals(), send=sent.append)
    longest = ClientMetric("\0" * LONGEST_NAME, True, False, (("\0" * LONGEST_KEY, "\0" * LONGEST_VALUE),) * 16, 1.5)
    runtime.show_client_metrics("app", "AAECAwQFBgcICQoLDA0ODw", [longest] * 50, 60.0, most_names=5, most_series=7)
    assert [len(message.metrics) for message in sent if isinstance(message, ClientMetrics)] == [20, 20, 10]
    lines = [msgspec.json.encode(message) for message in sent]
    assert max(map(len, lines)) < LONGEST_LINE
    assert [msgspec.json.Decoder(ToSupervisor).decode(line) for line in lines] == sent


def test_what_became_of_metrics_that_are_exported_is_counted_for_the_cluster() -> None:
    async def main(address: str) -> None:
        exporters = Exporters()
        runtime = FilterRuntime("orders", Journals(), counts=counts, exporters=exporters)
        export = runtime.export_metrics("telemetry", OtlpEndpoint(otlp=address))
        assert export.offer(b"")
        await exporters.close(30)
        assert not export.offer(b"")

    counts = SharedCounts.create()
    with http_collector() as collector:
        asyncio.run(main(collector.address))
    found = {name: counts.count("orders", "telemetry", "forwarded", name).value for name in ("exported", "dropped")}
    assert found == {"exported": 1, "dropped": 1}


ADD = """
import sys
from kproxy.proxy.shared_state import SharedCounts
count = SharedCounts(int(sys.argv[1])).count("orders", "faults", "calls", "f")
print(*[count.add() for _ in range(2000)])
"""
HOLD = """
import fcntl, sys, time
fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX)  # all of the file: counts and times
print("held", flush=True)
time.sleep(600)
"""
MOVE = """
import sys
from kproxy.proxy.shared_state import SharedCounts
times = SharedCounts(int(sys.argv[1])).times("throttle")
for _ in range(2000):
    times.move_on("n", 0.5, 100.0)
"""


def process(code: str, counts: SharedCounts) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", code, str(counts.fd)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, pass_fds=[counts.fd], env=environment)


@pytest.fixture
def counts() -> SharedCounts:
    return SharedCounts.create()


def test_each_number_is_given_once_over_all_processes(counts: SharedCounts) -> None:
    processes = [process(ADD, counts) for _ in range(2)]
    given = [int(number) for each in processes for number in each.communicate()[0].split()]
    assert sorted(given) == list(range(1, 4001))
    assert counts.rows() == [FilterCount("orders", "faults", "calls", "f", 4000)]


def test_a_process_that_dies_while_it_counts_holds_up_nobody(counts: SharedCounts) -> None:
    with process(HOLD, counts) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGKILL)
    assert counts.count("c", "f", "e", "n").add(3) == 3
    assert counts.times("t").move_on("a", 1, 0) == 1


def test_a_name_has_one_count_also_if_it_is_hostile(counts: SharedCounts) -> None:
    other = SharedCounts(counts.fd)
    for name in ('"\n\0\u202e', "", "x" * 200):
        assert counts.count("c", "f", "e", name).add() == 1
        assert other.count("c", "f", "e", name).add() == 2
        assert counts.count("c", "f", "e", name).value == 2
    assert [row.name for row in other.rows()] == ['"\n\0\u202e', "", "x" * 200]


def test_there_is_room_for_so_many_and_for_names_of_some_length(counts: SharedCounts) -> None:
    for number in range(SLOTS):
        counts.count("c", "f", "e", str(number))
    with pytest.raises(UsageError, match="more than 4,096 things"):
        counts.count("c", "f", "e", "one more")
    assert counts.count("c", "f", "e", "7").add() == 1
    with pytest.raises(UsageError, match="too long"):
        counts.count("c", "f", "e", "x" * 1_100)


def test_another_file_holds_no_counts() -> None:
    with pytest.raises(ValueError, match="holds no counts"):
        SharedCounts(create_sealed("other", 100))


def test_a_time_moves_on_from_now_or_from_where_it_is(counts: SharedCounts) -> None:
    times = counts.times("throttle")
    assert times.move_on("a", 2, 10) == 12
    assert times.move_on("a", 3, 11) == 15
    assert times.move_on("a", 0, 11) == 15
    assert times.move_on("b", 1, 11) == 12
    assert times.move_on("a", 1, 20) == 21
    assert counts.times("other").move_on("a", 1, 11) == 12
    assert SharedCounts(counts.fd).times("throttle").move_on("a", 1, 11) == 22


def test_nothing_is_lost_between_processes(counts: SharedCounts) -> None:
    processes = [process(MOVE, counts) for _ in range(2)]
    assert [each.wait() for each in processes] == [0, 0]
    for each in processes:
        each.communicate()
    assert counts.times("throttle").move_on("n", 0, 100.0) == 100.0 + 2 * 2_000 * 0.5


def test_of_too_many_names_those_are_forgotten_whose_time_is_past(
    counts: SharedCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kproxy.proxy.shared_state.GROUPS", 4)
    times = counts.times("t")
    for number in range(3):
        times.move_on(f"busy {number}", 1_000, 0)
    for number in range(GROUPS // 64):
        times.move_on(f"idle {number}", 1, number)
    assert [times.move_on(f"busy {number}", 0, 600) for number in range(3)] == [1_000] * 3
    assert WAYS > 3


def test_times_are_no_counts(counts: SharedCounts) -> None:
    counts.times("t").move_on("a", 1, 0)
    counts.count("c", "f", "e", "n").add(3)
    assert [row.count for row in counts.rows()] == [3]
    assert SharedTimes(counts.fd, TIMES_START, "t").move_on("a", 0, 0) == 1


@pytest.mark.parametrize("name", ["", "\udcff", "x" * 100_000, "\0"])
def test_any_name(counts: SharedCounts, name: str) -> None:
    assert counts.times("t").move_on(name, 1, 0) == 1
    assert counts.times("t").move_on(name, 1, 0) == 2


def test_what_is_added_in_a_turn_is_sent_in_one_message_and_once() -> None:
    sent: list[Message] = []

    async def add() -> None:
        sets = SharedSets("orders", sent.append)
        for value in ("a", "b", "a"):
            sets.named("ids").add(value)
        assert not sent
        await asyncio.sleep(0)
        sets.named("ids").add("b")
        sets.receive("ids", ["c"])
        sets.named("ids").add("c")
        await asyncio.sleep(0)
        assert sets.named("ids") is sets.named("ids")
        assert list(sets.named("ids")) == ["a", "b", "c"]

    asyncio.run(add())
    assert sent == [Learned("orders", "ids", ["a", "b"])]


def test_many_values_go_in_several_messages() -> None:
    values = [str(number) for number in range(2 * VALUES_A_MESSAGE + 1)]
    messages = list(in_parts("orders", "ids", values))
    assert [len(each.values) for each in messages] == [VALUES_A_MESSAGE, VALUES_A_MESSAGE, 1]
    assert [value for each in messages for value in each.values] == values


def test_the_supervisor_keeps_what_workers_that_start_later_need() -> None:
    learned = LearnedSets()
    for message in (Learned("a", "ids", ["1", "2"]), Learned("b", "ids", ["3"]), Learned("a", "ids", ["2", "4"])):
        learned.receive(message)
    assert list(learned.messages()) == [Learned("a", "ids", ["1", "2", "4"]), Learned("b", "ids", ["3"])]
    learned.forget_all_but(["b"])
    assert list(learned.messages()) == [Learned("b", "ids", ["3"])]
