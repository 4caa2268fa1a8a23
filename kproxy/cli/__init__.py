"""The command line: one file per command, and the one place that turns errors into sentences and exit codes.

app.py            the commands, main(), exit codes
decode.py         kproxy decode: captures to text, JSON lines, a capture in the clear, or tables
decoded_log.py    or a decoded log, line by line, in place of a capture
outputs.py        where its events go: lines
capture_again.py  or a capture
pipeline.py       capture flows -> sessions -> events; which flows are Kafka, and who is the client
sides.py          who is the client of a flow whose beginning was not captured
tls_flow.py       a flow of TLS -> what is inside of it; where the secrets come from
sink.py           where the output goes
pcapng_output.py  events to a capture: packets in order, comments, how connections begin and end
late_names.py     holds events back until the topics in them have names
time_order.py     sorts more than memory holds
parquet.py        or a directory of tables
progress.py       the bar on a terminal
summary.py        what is said at the end
api.py            kproxy api: the protocol reference
protocol_text.py  fields and differences as text
run.py            kproxy run: options, then this process becomes the supervisor of kproxy.proxy
check.py          kproxy check: mistakes of a configuration, or what it would run; its JSON Schema
demo.py           kproxy demo: a mock cluster, kproxy run in front of it, clients at work
demo_workload.py  the cluster and the clients
demo_proxy.py     the proxy, and its capture as text while it is written
demo_summary.py   the one screen at the end
"""

import gc
from collections.abc import Sequence

# A decode makes many objects that die young, and a cycle a connection; start-up makes thousands that stay.
COLLECT_AFTER = (10_000, 10, 5)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with one of the codes that app.py lists."""
    before = gc.get_threshold()
    gc.disable()
    from kproxy.cli import app  # noqa: PLC0415 - with the collector off, a tenth faster

    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()
    try:
        app.main(arguments)
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
