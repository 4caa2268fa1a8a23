"""Incidents and look-alikes of what is noted rather than warned of: three of each for an analysis, in one workload."""

import sys
from collections.abc import Mapping

from tests.support.kafka.jars import java
from tests.truth.lab import SOURCES, Lab, workload

# Programs that choose no client id.
_UNNAMED = {
    "librdkafka": (
        "import confluent_kafka as k\np = k.Producer({{'bootstrap.servers': {at!r}}})\np.produce('orders', b'x')\np.flush(20)"
    ),
    "kafka-python": "import kafka as k; p = k.KafkaProducer(bootstrap_servers={at!r})\np.send('orders', b'x').get(20)",
    "aiokafka": (
        "import aiokafka as k, asyncio\nasync def run():\n    p = k.AIOKafkaProducer(bootstrap_servers={at!r})\n"
        "    await p.start()\n    await p.send_and_wait('orders', b'x')\n    await p.stop()\nasyncio.run(run())"
    ),
}


def _python(lab: Lab, host: str, text: str) -> None:
    lab.program(host, "script", "python", [sys.executable, "-c", text])


@workload("Programs without a client id, and others whose names only resemble the defaults of their libraries.")
def without_a_name(lab: Lab) -> None:
    lab.topic("orders", 2)
    at = lab.cluster.bootstrap("PLAIN")
    for library, text in _UNNAMED.items():
        _python(lab, f"unnamed-{library}", text.format(at=at))
    words = ["--bootstrap-server", at, "--topic", "orders", "--max-messages", "3"]
    verifiable = java(lab.work.release, "org.apache.kafka.tools.VerifiableProducer", *words)
    lab.program("unnamed-java", "produce", "java", verifiable)
    for name, library in (
        ("consumer-7b", "java"),
        ("rdkafka-bridge", "librdkafka"),
        ("kafka-python-import", "kafka-python"),
    ):
        lab.produce(name, "orders", library=library, acks="all")
    lab.wait(12)
    for name in ("rdkafka", "~kafka-python-(producer-)?[0-9.-]+", "~aiokafka-(producer-)?[0-9.]+", "producer-1"):
        lab.expect("anonymous_clients", client_id=name)
    for name in ("consumer-7b", "rdkafka-bridge", "kafka-python-import"):
        lab.never("anonymous_clients", client_id=name)
    lab.allow("acks_below_all")


_OPENS = """
import socket, struct, sys, time
sys.path.insert(0, {folder!r})
from tests.support.sockets import Wire
from tests.support.frames import request
def ask(wire, number):
    wire.send(request(18, 0, number, b"", client_id={name!r}))
    wire.frame()
wires = []
for number in range({count}):
    wires.append(Wire({at!r}))
    ask(wires[-1], 1)
    if {closes}:
        wires.pop().close()
    time.sleep(0.02)
for turn in range(1, 1000):
    time.sleep({every})
    for wire in wires:
        ask(wire, turn + 1)
"""


@workload("Programs that open a client for each thing they do and close none, and others with many or few connections.")
def connections_left_open(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    at = lab.cluster.bootstrap("PLAIN")
    programs: Mapping[str, tuple[int, bool, float]] = {  # how many, whether it closes them, seconds between requests
        "leaks-60": (60, False, 900),
        "leaks-150": (150, False, 900),
        "busy-pool": (70, False, 4),
        "closes": (90, True, 900),
        "few": (40, False, 900),
    }
    folder = str(SOURCES.parent.parent)
    for name, (count, closes, every) in programs.items():
        text = _OPENS.format(folder=folder, at=at, name=name, count=count, closes=closes, every=every)
        _python(lab, name, text)
    settings = {"bootstrap.servers": at, "client.id": "leaks-c"}
    leaks = f"import confluent_kafka as k, time\nkept = [k.Producer({settings!r}) for _ in range(60)]\n"
    _python(lab, "leaks-c", leaks + "for one in kept:\n    one.list_topics(timeout=20)\ntime.sleep(900)")
    lab.wait(48)
    for name in ("leaks-60", "leaks-150", "leaks-c"):
        lab.expect("idle_connections", client_id=name)
    for name in ("busy-pool", "closes", "few", "shop"):
        lab.never("idle_connections", client_id=name)
    lab.never(
        "reconnect_loop", client_id=["leaks-60", "leaks-150", "leaks-c", "busy-pool", "few"]
    )  # they stay connected
    for analysis in ("connection_churn", "reconnect_loop"):
        lab.allow(analysis, client_id="closes")
    lab.allow("metadata_storm", client_id="leaks-c")  # 172 requests in a second
    lab.cut_short = True


@workload("Consumers of 1,200 partitions each; others that share them, have fewer, or fetch none.")
def very_many_partitions(lab: Lab) -> None:
    lab.topic("wide", 1200)
    lab.topic("narrow", 300)
    lab.produce("shop", "wide", rate=50)
    for library in ("librdkafka", "java", "aiokafka"):
        lab.consume(f"all-{library}", "wide", group=f"all-{library}", library=library)
    for number in (1, 2):
        lab.consume(f"shares-{number}", "wide", group="shares")
    lab.consume("narrow", "narrow", group="narrow", library="java")
    lab.wait(25)
    for library in ("librdkafka", "java", "aiokafka"):
        lab.expect("too_many_partitions", client_id=f"all-{library}", partitions=1200)
    for name in ("shares-1", "shares-2", "narrow", "shop"):
        lab.never("too_many_partitions", client_id=name)
    lab.allow("rebalances")
    lab.allow("tiny_batches")
    lab.allow("small_fetches")


_SPEAKS = """
import ssl, sys, time
sys.path.insert(0, {folder!r})
from tests.support.sockets import Wire
from tests.support.frames import request
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_ciphers("ALL:@SECLEVEL=0")
context.minimum_version, context.maximum_version = ssl.TLSVersion.{least}, ssl.TLSVersion.{most}
context.keylog_filename = {secrets!r}
wire = Wire({at!r}, tls=context)
for number in range(1, 1000):
    wire.send(request(18, 0, number, b"", client_id={name!r}))
    wire.frame()
    time.sleep(1)
"""


@workload(
    "Clients of TLS 1.0 and 1.1 with a broker that still takes them, and clients of 1.2 and 1.3.",
    secure=True,
    ssl_enabled_protocols="TLSv1,TLSv1.1,TLSv1.2,TLSv1.3",
)
def withdrawn_tls(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", listener="TLS")
    at, folder = lab.cluster.bootstrap("TLS"), str(SOURCES.parent.parent)
    speaks = {
        "speaks-1-0": ("TLSv1", "TLSv1"),
        "speaks-1-1": ("TLSv1_1", "TLSv1_1"),
        "speaks-up-to-1-1": ("TLSv1", "TLSv1_1"),
        "speaks-1-2": ("TLSv1_2", "TLSv1_2"),
        "speaks-1-3": ("TLSv1_3", "TLSv1_3"),
        "speaks-all": ("TLSv1", "TLSv1_3"),
    }
    for name, (least, most) in speaks.items():
        text = _SPEAKS.format(folder=folder, at=at, name=name, least=least, most=most, secrets=str(lab.secrets))
        _python(lab, name, text)
    lab.wait(9)
    for name, version in (("speaks-1-0", "TLS 1.0"), ("speaks-1-1", "TLS 1.1"), ("speaks-up-to-1-1", "TLS 1.1")):
        # the client id is within what is encrypted, and TLS of this age is not decrypted: the address says who it is
        lab.expect("old_tls", client_address=lab.network.address(name), tls_version=version)
    for name in ("speaks-1-2", "speaks-1-3", "speaks-all", "shop"):
        lab.never("old_tls", client_address=lab.network.address(name))
