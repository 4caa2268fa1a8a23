"""``kproxy run``: becomes another program (running.py), as Click would take 3 MB of memory for as long as it runs."""

import json
import os
import signal
import sys
from typing import Any, NoReturn

import click

from kproxy.cli.options import bootstrap_option, complete_faults
from kproxy.proxy.environment import environment

# -m would import what only it needs. With few collections start-up is faster, and with none it leaves 0.3 MB of gaps.
# msgspec needs typing_extensions only in older versions of Python; it takes 0.3 MB.
PROGRAM = """
import gc, sys
gc.set_threshold(20_000)
sys.modules["typing_extensions"] = None
import msgspec
del sys.modules["typing_extensions"]
from kproxy.cli.running import main
sys.exit(main())
"""


@click.command()
@click.option("--listen", metavar="HOST:PORT", help="Where clients connect; :PORT for every interface.")
@bootstrap_option("One or more brokers of the cluster.")
@click.option(
    "-c", "--config", "file", metavar="FILE", help="Configuration (YAML) in place of these two; see kproxy check."
)
@click.option("--advertise", metavar="HOST", help="Host to advertise to clients; otherwise the one they connected to.")
@click.option("--admin", metavar="HOST:PORT", help="Serve metrics and health here (127.0.0.1:9644); off: not at all.")
@click.option("--workers", metavar="N", type=int, help="Number of processes that forward (1).")
@click.option("--no-analysis", is_flag=True, help="Only forward: no decoded log, no captures.")
@click.option("--log", metavar="PATH", help="Write the decoded log here: JSON lines, rotated.")
@click.option("--capture", metavar="PATH", help="Write a capture of the decrypted traffic here: pcapng, rotated.")
@click.option("--outlive", is_flag=True, help="When stopped, serve until no client is connected (sidecar).")
@click.option(
    "--fault",
    "faults",
    metavar="WORDS",
    multiple=True,
    shell_complete=complete_faults,
    help="Fail on purpose: 'api_name=Produce error=... times=2'; repeatable.",
)
@click.option("--reload-filters", is_flag=True, help="Load filters again when their files change: for development.")
def run(no_analysis: bool, faults: tuple[str, ...], **others: Any) -> NoReturn:
    """Forward Kafka traffic, and analyze it.

    \b
    kproxy run --listen :19092 --bootstrap kafka:9092
    kproxy run --listen :19092 --bootstrap kafka:9092 --log kafka.jsonl
    kproxy run --listen :19092 --bootstrap kafka:9092 --fault leader_moved
    kproxy run -c kproxy.yaml

    Clients whose bootstrap address has port 19092 reach the cluster through kproxy. Broker n is served on port 19093 + n,
    the same after every restart. Every address of a broker in responses (Metadata, FindCoordinator, DescribeCluster, the
    leader hints of Produce and Fetch) is rewritten, and one that cannot be mapped is withheld. All other bytes are
    forwarded unchanged, also APIs and versions that kproxy does not know; these are counted.

    --log and --capture are rotated by size and age, and kproxy decode and report read both. --admin serves /metrics
    (Prometheus), /connections, /filters, /config (without secrets), /healthz for liveness, and /readyz for readiness:
    503 with the reason until a broker of every cluster was reached; and the live page of the traffic, with
    pip install 'kproxy-kafka[page]'. The page opens by an address with a token: on a terminal kproxy logs it, elsewhere it
    writes it to a file with mode 0600 and logs the file's name (event "the page"). --outlive is for a sidecar: it serves
    until its application has disconnected.

    Workers forward, and read only the size and the header of each frame. A copy of the bytes goes through shared memory to
    another process, the analyzer, which decodes it. If that is slow or dies, traffic is not affected, and it is started
    again. What is too much for it is left out, first the ends of bodies, then whole exchanges: exchanges in the log +
    kproxy_exchanges_left_out_total = kproxy_requests_total, exactly.

    kproxy check --help describes the configuration file: TLS on both sides, several clusters, filters, other ways to
    address brokers, the PROXY protocol, SOCKS5 and HTTP CONNECT, limits, traces.

    SIGTERM or Ctrl-C: answer the requests in flight, then end; a second one ends at once. SIGHUP or a change of the file
    loads the configuration again without closing a connection; if it has mistakes, they are logged and the previous
    configuration stays. Certificates are loaded again when their files change. The log goes to standard error: a JSON
    object a line, whose keys kproxy/proxy/logs.py lists, or text on a terminal.
    """
    options = {"analysis": not no_analysis, "faults": list(faults), **others}
    fd = os.memfd_create("kproxy options", 0)
    os.write(fd, json.dumps(options).encode())
    # -P: no modules of the current directory. What follows FD is for those who look for a command line, and room for a title
    words = [sys.executable, "-P", "-c", PROGRAM, str(fd), "kproxy", *sys.argv[1:]]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C waits until the modules are imported
    os.execve(sys.executable, words, environment())
