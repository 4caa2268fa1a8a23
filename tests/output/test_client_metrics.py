"""Series of clients, as Prometheus' own parser reads them."""

import shutil
import subprocess
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families

from kproxy.output.client_metrics import MOST_FAMILIES, MOST_SERIES, MOST_SERIES_A_FAMILY, ClientSeries
from tests.conftest import Require

CLIENT = ("orders", "app", "AAECAwQFBgcICQoLDA0ODw")
HOSTILE = ["a\nb", "\x1b[31m", "\0", "\u202e", "\udcff", '"', "\\", "x" * 10_000]


class Number(NamedTuple):
    name: str
    is_counter: bool
    value: float
    is_delta: bool = False
    attributes: tuple[tuple[str, str], ...] = ()


def text(series: ClientSeries) -> str:
    registry = CollectorRegistry(auto_describe=False)

    class All:
        def collect(self) -> object:
            return series.families()

    registry.register(All())  # type: ignore[arg-type]
    list(read_open_metrics(open_metrics(registry).decode()))
    return generate_latest(registry).decode()


def samples(series: ClientSeries) -> dict[str, float]:
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))}}}": sample.value
        for family in text_string_to_metric_families(text(series))
        for sample in family.samples
    }


def added(*numbers: Number, series: ClientSeries | None = None) -> ClientSeries:
    series = series or ClientSeries()
    series.add(0.0, CLIENT, numbers, 60.0)
    return series


def test_names_labels_and_values() -> None:
    own = "client_id=app,client_instance_id=AAECAwQFBgcICQoLDA0ODw,cluster=orders"
    numbers = [
        Number(
            "org.apache.kafka.producer.record.send.total", True, 42.0, attributes=(("topic", "t"), ("client.id", "x"))
        ),
        Number("org.apache.kafka.producer.request.latency.avg", False, 1.5),
        Number("Other-Metric", False, -1.0, attributes=(("1a", "b"), ("empty", ""))),
    ]
    assert samples(added(*numbers)) == {
        f"kafka_client_producer_record_send_total{{{own},topic=t}}": 42.0,
        f"kafka_client_producer_request_latency_avg{{{own}}}": 1.5,
        f"kafka_client_other_metric{{attribute_1a=b,{own}}}": -1.0,
    }


def test_deltas_are_added_and_sums_replace() -> None:
    series = added(Number("d.total", True, 2.0, True), Number("c.total", True, 2.0))
    added(Number("d.total", True, 3.0, True), Number("c.total", True, 3.0), series=series)
    assert sorted(samples(series).values()) == [3.0, 5.0]


def test_names_that_become_one_are_one_series_and_a_type_stays() -> None:
    series = added(
        Number("a.b", True, 1.0), Number("a_b", True, 2.0), Number("A-b.total", True, 3.0), Number("a.b", False, 9.0)
    )
    assert list(samples(series).values()) == [3.0]
    assert series.dropped == {"another type": 1}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_one_sample_on_one_line(name: str) -> None:
    series = ClientSeries()
    series.add(0.0, (name, name, name), [Number(name, True, 1.0, attributes=((name, name),))], 60.0)
    written = text(series)
    assert len(written.splitlines()) == 3
    assert all(char.isprintable() for char in written.replace("\n", ""))
    assert len(written) < 2_000
    assert list(samples(series).values()) == [1.0]


def test_series_are_capped_and_come_back_when_others_are_idle() -> None:
    series = ClientSeries()
    for number in range(MOST_SERIES_A_FAMILY + 7):
        series.add(0.0, ("c", f"client-{number}", "i"), [Number("a", False, 1.0)], 60.0)
    assert (len(samples(series)), series.dropped["too many series"]) == (MOST_SERIES_A_FAMILY, 7)
    series.expire(60.0)
    assert samples(series) == {}
    series.add(61.0, CLIENT, [Number("a", False, 1.0)], 60.0)
    assert len(samples(series)) == 1


@pytest.mark.slow
def test_names_and_all_series_together_are_capped() -> None:
    series = added(*(Number(f"n{number}", False, 1.0) for number in range(MOST_FAMILIES + 3)))
    assert (len(samples(series)), series.dropped["too many names"]) == (MOST_FAMILIES, 3)
    numbers = [Number(f"n{number}", False, 1.0, attributes=(("a", "b"),)) for number in range(MOST_FAMILIES)]
    for client in range(MOST_SERIES // MOST_FAMILIES):
        series.add(1.0, ("c", f"client-{client}", "i"), numbers, 60.0)
    assert (len(samples(series)), series.dropped["too many series"]) == (MOST_SERIES, MOST_FAMILIES)


def test_a_cluster_may_have_less_than_all_together() -> None:
    series = ClientSeries()
    for number in range(9):
        one = [Number("a", False, 1.0), Number(f"n{number}", False, 1.0)]
        series.add(0.0, ("c", f"client-{number}", "i"), one, 60.0, most_names=4, most_series=2)
    assert len([name for name in samples(series) if name.startswith("kafka_client_a{")]) == 2
    assert len(samples(series)) == 2 + 3
    assert series.dropped == {"too many series": 7, "too many names": 6}


def test_topics_and_clients_that_begin_alike_are_series_of_their_own() -> None:
    series = ClientSeries()
    topics = ["t" * 248 + end for end in "ab"]
    for client_id in ("c" * 1_000 + end for end in "ab"):
        series.add(
            0.0, ("orders", client_id, "i"), [Number("a", True, 1.0, False, (("topic", t),)) for t in topics], 60
        )
    assert list(samples(series).values()) == [1.0] * 4


def test_promtool_reads_hostile_names(require: Require) -> None:
    """What it says of the words that clients chose, such as their units, is not of the format."""
    promtool = shutil.which("promtool")
    require("promtool", promtool, "there is no promtool")
    assert promtool is not None
    series = ClientSeries()
    for name in [*HOSTILE, "le", "quantile", "__name__", "total", "created.total", "x.bucket", "1", "{}", "# HELP x"]:
        for is_counter in (True, False):
            series.add(0.0, (name,) * 3, [Number(name, is_counter, 1.0, attributes=((name, name), ("le", "1")))], 60.0)
    done = subprocess.run(
        [promtool, "check", "metrics"], check=False, input=text(series), capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (0, 3), done.stderr  # 3: only advice
    assert [line for line in done.stderr.splitlines() if "abbreviated units" not in line] == []
