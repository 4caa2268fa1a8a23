"""The summary at the end of ``kproxy demo``: what its metrics counted, and commands to continue with."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kproxy.output.times import render_duration, render_size

if TYPE_CHECKING:
    from kproxy.cli.demo_workload import Counts

SAMPLE = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>[0-9.e+-]+|\+Inf|NaN)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
MOST_ROWS = 10


@dataclass
class Api:
    """One API, all versions together; sizes in bytes."""

    requests: float = 0
    responses: float = 0
    request_bytes: float = 0
    response_bytes: float = 0
    answered: float = 0
    buckets: dict[float, float] = field(default_factory=lambda: defaultdict(float))  # responses up to so many seconds

    def quantile(self, share: float) -> float:
        """The upper bound, in seconds, of the first bucket that *share* of the responses are in or below."""
        within = (le for le, count in sorted(self.buckets.items()) if count >= share * self.answered)
        return next(within, 0.0)


FIELDS = {
    "kproxy_requests_total": "requests",
    "kproxy_responses_total": "responses",
    "kproxy_request_bytes_total": "request_bytes",
    "kproxy_response_bytes_total": "response_bytes",
    "kproxy_latency_seconds_count": "answered",
}


def read_metrics(text: str) -> dict[str, Api]:
    """Parse the text of ``/metrics``: API name to its counters."""
    apis: dict[str, Api] = defaultdict(Api)
    for sample in SAMPLE.finditer(text):
        labels = dict(LABEL.findall(sample["labels"]))
        if "api" not in labels:
            continue
        api, value = apis[labels["api"]], float(sample["value"])
        if sample["name"] == "kproxy_latency_seconds_bucket":
            api.buckets[float(labels["le"])] += value
        elif name := FIELDS.get(sample["name"]):
            setattr(api, name, getattr(api, name) + value)
    return dict(apis)


@dataclass(frozen=True)
class Files:
    """The files that the demo leaves behind."""

    decoded_log: str
    capture: str


def show_summary(console: Console, counts: "Counts", apis: dict[str, Api], seconds: float, files: Files) -> None:
    """Print two dozen lines, at most 80 columns wide; only paths are wider, so that they can be copied."""
    requests = sum(api.requests for api in apis.values())
    sent, received = (sum(getattr(api, name) for api in apis.values()) for name in ("request_bytes", "response_bytes"))
    failed = f", {counts.failed} failed" if counts.failed else ""
    produced = (
        f"{counts.produced} records produced, {counts.consumed} consumed by a group of {counts.consumers}{failed}"
    )
    console.print(f"\n{produced} in {seconds:.0f} s", style="bold")
    both = f"{render_size(int(sent))} to brokers, {render_size(int(received))} back"
    console.print(f"{requests:.0f} requests, {both}\n")
    console.print(_table(apis))
    console.print("\nNext:")
    for name, text in _next_steps(files).items():
        console.print(Text.assemble((f"{name:<14}", "dim"), text), soft_wrap=True)


def _table(apis: dict[str, Api]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("API", no_wrap=True)
    for name in ("requests", "sent", "received", "p50 ≤", "p99 ≤"):
        table.add_column(name, justify="right", no_wrap=True)
    busiest = sorted(apis.items(), key=lambda item: (-item[1].requests, item[0]))
    for name, api in busiest[:MOST_ROWS]:
        sizes = (render_size(int(size)) for size in (api.request_bytes, api.response_bytes))
        times = (api.quantile(0.5), api.quantile(0.99)) if api.answered else ()
        shown = [render_duration(int(time * 1e9)) if time < 1e6 else "-" for time in times] or ["-"] * 2
        table.add_row(name, f"{api.requests:.0f}", *sizes, *shown)
    if len(busiest) > MOST_ROWS:
        table.add_row(f"and {len(busiest) - MOST_ROWS} more", style="dim")
    return table


def _next_steps(files: Files) -> dict[str, str]:
    return {
        "the page": f"kproxy open {files.capture}",
        "findings": f"kproxy report {files.capture}",
        "all fields": f"kproxy decode -v --records {files.capture}",
        "Wireshark": f"wireshark {files.capture}",
        "decoded log": files.decoded_log,
        "your cluster": "kproxy run --listen :19092 --bootstrap your-broker:9092",
    }
