"""How much of a load that fills the machine reaches the decoded log, and whether the counts of the rest are exact.

    python -m tests.bench.saturation [--seconds 5]

Two processes send Heartbeats as fast as they are answered. Wanted: at least 0.4 of them are in the log; those in it and those
counted as left out are together the requests that were answered; and no line says anything else than what was sent.
"""

import json
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.filters import HEARTBEAT, Load, answered, asked, drive
from tests.bench.forwarding import serve
from tests.bench.measuring import options_of
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster

LOAD = Load("heartbeat 4x50", HEARTBEAT, asked(HEARTBEAT, group_id="g", member_id="m"), answered(HEARTBEAT), 4, 50)
SENDERS = 2


def send(where: str, seconds: float, counts: Any) -> None:
    counts.put(drive(where, LOAD, seconds))


def is_true(line: str) -> bool:
    """Whether an exchange is one that was sent."""
    event = json.loads(line)
    return (event["apiName"], event["undecoded"], event["request"]["groupId"]) == ("Heartbeat", None, "g")


def main() -> None:
    given = options_of(__doc__, seconds=5.0)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    context.Process(target=serve, args=([LOAD], there), daemon=True).start()
    served = cluster([here.recv()], addresses={"mode": "fixed"})
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log.jsonl"
        proxy = Proxy(Path(name) / "proxy", [served], analysis={"log": {"path": str(log)}})
        try:
            proxy.start(reaches_brokers=False).analyzing()
            counts = context.Queue()
            senders = [
                context.Process(target=send, args=(proxy.bootstrap(), given.seconds, counts)) for _ in range(SENDERS)
            ]
            for sender in senders:
                sender.start()
            sent = sum(counts.get() for _ in senders)

            def seen() -> float:
                return proxy.count("kproxy_analyzed_exchanges_total") + proxy.count("kproxy_exchanges_left_out_total")

            eventually(lambda: seen() >= sent, what="the analyzer has seen or left out all")
            left_out = proxy.count("kproxy_exchanges_left_out_total")
        finally:
            proxy.stop(patience=30)
        lines = [line for path in Path(name).glob("log*.jsonl") for line in path.open() if '"event":"exchange"' in line]
    share, untrue = len(lines) / sent, sum(not is_true(line) for line in lines)
    print(
        f"{sent / given.seconds:,.0f} requests a second; {share:.2f} of {sent:,} in the log, {left_out:,.0f} left out,",
        end=" ",
    )
    print(f"{sent - len(lines) - left_out:,.0f} not accounted for; {untrue:,} lines are untrue")


if __name__ == "__main__":
    main()
