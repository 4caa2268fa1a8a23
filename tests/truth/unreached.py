"""Addresses at which clients get no connection, by TCP's own words; and connections without a byte that mean nothing."""

import subprocess
import sys
import time

from tests.support.certificates import Authority
from tests.truth.lab import Lab, workload
from tests.truth.operations import ZOOKEEPER, advertise

_TAKES_AND_ENDS = """
import socket
with socket.create_server(("", 9092)) as server:
    while True:
        server.accept()[0].close()
"""
_PROBES = """
import socket, struct, time
for number in range(60):
    for port in {ports}:
        with socket.socket() as probe:
            if number % 2:  # some load balancers end a check by RST
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            probe.connect_ex(({host!r}, port))
    time.sleep(0.4)
"""
_REFUSES = """
import socket
with socket.create_server(("", 9092)) as server:
    while True:
        with server.accept()[0] as asked:
            if asked.recv(65536):
                asked.sendall(b"HTTP/1.1 400 Bad Request\\r\\nConnection: close\\r\\n\\r\\n")
"""
BALANCES = """
import asyncio
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
async def carry(reader, writer):
    inward, outward = await asyncio.open_connection({host!r}, 9092)
    await asyncio.wait([asyncio.ensure_future(copy(reader, outward)), asyncio.ensure_future(copy(inward, writer))],
                       timeout={seconds}, return_when=asyncio.FIRST_COMPLETED)
    for each in (writer, outward):
        each.close()
async def main():
    async with await asyncio.start_server(carry, "", 9092) as server:
        await server.serve_forever()
asyncio.run(main())
"""
_TLS_PROBES = """
import socket, ssl, time
context = ssl._create_unverified_context()
for _ in range(30):
    with socket.create_connection(({host!r}, {port})) as probe, context.wrap_socket(probe):
        pass
    time.sleep(0.5)
"""


def _drop(lab: Lab, host: str, *words: str) -> float:
    """Have a host drop the packets that these words of iptables describe."""
    subprocess.run([*lab.network.inside(host), "iptables", "-A", "INPUT", *words, "-j", "DROP"], check=True)
    return lab.note(f"{host} drops {' '.join(words)}")


def _allow_the_rest(lab: Lab) -> None:
    for analysis in ("unreachable_brokers", "metadata_storm", "reconnect_loop", "coordinator_errors"):
        lab.allow(analysis)


@workload(
    "The broker advertises an address behind a firewall, which drops what comes.",
    variants={"java": {"library": "java"}, "kafka-python": {"library": "kafka-python", "release": ZOOKEEPER}},
)
def address_behind_firewall(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 1)
    where = lab.network.address("nobody")
    _drop(lab, "nobody", "-p", "tcp", "--dport", "9092")
    advertise(lab, where)
    shop = lab.produce("shop", "orders", library=library)
    billing = lab.consume("billing", "orders", group="billing", library=library)
    lab.wait(30)
    for client in (shop, billing):
        lab.expect(
            "no_connection",
            at=client.started + 2,
            within=4,
            client_id=client.client_id,
            address=f"{where}:9092",
            how="no answer",
            node_id="1",
        )
    _allow_the_rest(lab)


@workload("What is at the advertised address takes connections and ends them.", variants={"java": {"library": "java"}})
def taken_and_ended(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 1)
    where = lab.network.address("proxy")
    lab.program("proxy", "admin", "home-made", [sys.executable, "-c", _TAKES_AND_ENDS], host="proxy")
    advertise(lab, where)
    lab.produce("shop", "orders", library=library)
    lab.wait(25)
    # a client that has sent its ApiVersions by then was ended at a request
    lab.allow("no_connection", client_id="shop", address=f"{where}:9092", how="dropped")
    _allow_the_rest(lab)
    lab.allow("unanswered_requests")


@workload("A firewall keeps one host from a broker of three that serves all others.", nodes=3)
def one_host_is_kept_out(lab: Lab) -> None:
    lab.topic("orders", 3)
    where = lab.cluster.brokers[2].where("PLAIN")
    outside = lab.network.address("shop-2")
    _drop(lab, lab.cluster.brokers[2].host, "-s", outside, "-p", "tcp", "--dport", "9092")
    lab.produce("shop-1", "orders", rate=20)
    first = lab.cluster.brokers[1].where("PLAIN")
    began = lab.produce("shop-2", "orders", rate=20, bootstrap=first).started
    lab.wait(30)
    lab.expect(
        "no_connection", at=began + 6, within=8, client_id="shop-2", address=where, how="no answer", node_id="2",
        reached_by_others=1,
    )  # fmt: skip
    lab.never("no_connection", client_id="shop-1")
    for analysis in ("unanswered_requests", "stale_leader", "metadata_storm"):
        lab.allow(analysis, client_id="shop-2")


@workload("Probes connect and say nothing, and one of the bootstrap servers is no more.", healthy=True)
def probes_say_nothing(lab: Lab) -> None:
    lab.topic("orders", 1)
    gone, here = f"{lab.network.address('gone')}:9092", lab.cluster.bootstrap("PLAIN")
    for name, ports in (("balancer", [9092]), ("scanner", [9092, 9093, 9096])):
        text = _PROBES.format(host=here.partition(":")[0], ports=ports)
        lab.program(name, "admin", "home-made", [sys.executable, "-c", text], host=name)
    for library in ("librdkafka", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library, bootstrap=f"{gone},{here}")
    # a scanner on a host that has a client, too
    text = _PROBES.format(host=here.partition(":")[0], ports=[9093])
    lab.program("agent", "admin", "home-made", [sys.executable, "-c", text], host="shop-librdkafka")
    lab.wait(26)


@workload("Clients, old ones and new ones, try to connect while their only broker restarts.")
def tries_while_it_restarts(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    lab.wait(8)
    lab.stop_broker(1)
    lab.produce("new", "orders")
    lab.wait(9)
    lab.start_broker(1)
    lab.wait(10)
    lab.never("no_connection")
    for analysis in ("broker_away", "unanswered_requests", "stale_leader", "reconnect_loop", "coordinator_errors"):
        lab.allow(analysis)


def _other_ca(lab: Lab) -> str:
    return Authority("others", lab.folder / "pki-of-others").ca


@workload("Clients do not know who signed the broker's certificate.", secure=True)
def unknown_ca(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", listener="TLS")
    began = time.time()
    lab.produce("late", "orders", listener="TLS", ssl_ca_location=_other_ca(lab))
    java = {"ssl_truststore_location": _other_ca(lab)}
    lab.produce("late-java", "orders", listener="TLS", library="java", **java)
    lab.wait(18)
    for name in ("late", "late-java"):
        lab.expect("tls_failed", at=began + 6, within=8, client_address=lab.network.address(name), alert="~client")
    _allow_the_rest(lab)


@workload("The broker asks for certificates, which clients do not have.", secure=True, ssl_client_auth="required")
def certificate_missing(lab: Lab) -> None:
    lab.topic("orders", 1)
    began = lab.produce("shop", "orders", listener="TLS").started
    lab.produce("shop-java", "orders", listener="TLS", library="java")
    lab.wait(18)
    for name in ("shop", "shop-java"):
        lab.expect("tls_failed", at=began + 6, within=8, client_address=lab.network.address(name), alert="~broker")
    _allow_the_rest(lab)


@workload("A client of TLS 1.2 meets a broker that takes only 1.3.", secure=True, ssl_enabled_protocols="TLSv1.3")
def tls_version_refused(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", listener="TLS")
    old = {"ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": "TLSv1.2"}
    began = lab.produce("old", "orders", listener="TLS", library="java", **old).started
    lab.wait(18)
    lab.expect("tls_failed", at=began + 6, within=8, client_address=lab.network.address("old"), cause="~no version")
    lab.never("tls_failed", client_address=lab.network.address("shop"))
    _allow_the_rest(lab)


@workload("Short jobs behind TLS, and probes that end after the handshake.", secure=True, healthy=True)
def short_jobs_behind_tls(lab: Lab) -> None:
    lab.topic("orders", 1)
    host, _, port = lab.cluster.bootstrap("TLS").partition(":")
    text = _TLS_PROBES.format(host=host, port=int(port))
    lab.program("balancer", "admin", "home-made", [sys.executable, "-c", text], host="balancer")
    for number in range(3):
        lab.produce(f"job-{number}", "orders", listener="TLS", count=5)
        lab.produce(f"job-java-{number}", "orders", listener="TLS", library="java", count=5)
        lab.wait(6)


def _forget(lab: Lab, hosts: list[str], *then: str) -> float:
    """Have a firewall before the only broker forget the connections of hosts: it drops their packets, or does *then*."""
    for host in hosts:
        words = [*lab.network.inside(host), "ss", "-Htn", "state", "established"]
        sockets = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
        for port in {line.split()[2].rpartition(":")[2] for line in sockets}:
            rule = ["-s", lab.network.address(host), "-p", "tcp", "--sport", port, "-j", *(then or ["DROP"])]
            subprocess.run([*lab.network.inside("broker-1"), "iptables", "-A", "INPUT", *rule], check=True)
    return lab.note(f"the connections of {', '.join(hosts)} are forgotten")


SELDOM = {"rate": 1 / 140, "acks": "all"}  # then the clients' own connections are idle for 140 s


@workload(
    "A firewall forgets idle connections; the next request of each gets no answer.",
    variants={"reset": {"then": ("REJECT", "--reject-with", "tcp-reset")}, "2-8": {"release": ZOOKEEPER}},
)
def forgotten_while_idle(lab: Lab, then: tuple[str, ...] = ()) -> None:
    lab.topic("orders", 1)
    names = {"shop": "librdkafka", "shop-java": "java", "shop-python": "kafka-python"}
    began = time.time()
    clients = {name: lab.produce(name, "orders", library=library, **SELDOM) for name, library in names.items()}
    lab.produce("calm", "orders", acks="all", rate=2)
    lab.wait(20)
    _forget(lab, list(names), *then)
    lab.wait(began + 225 - time.time())
    for name in names:
        lab.expect("half_open_connections", at=clients[name].event("began") + 141, within=3, client_id=name)
        lab.allow("unanswered_requests", client_id=name)
    lab.never("half_open_connections", client_id="calm")


@workload(
    "Idle connections that a broker closes itself, and a broker that stands still when they are used again.",
    connections_max_idle_ms="60000",
)
def idle_and_frozen(lab: Lab) -> None:
    lab.topic("orders", 1)
    for name, library in {"shop": "librdkafka", "shop-java": "java", "shop-python": "kafka-python"}.items():
        lab.produce(name, "orders", library=library, **SELDOM)
    for name, library in {"often": "librdkafka", "often-java": "java"}.items():
        lab.produce(name, "orders", library=library, acks="all", rate=1 / 50)
    lab.wait(95)
    lab.freeze_broker(1, 35)
    lab.wait(30)
    lab.never("half_open_connections")
    for analysis in ("broker_away", "unanswered_requests", "slow_broker", "duplicate_records"):
        lab.allow(analysis)


@workload("Clients are idle for two minutes; then their broker stands still, or starts anew.")
def idle_and_started_anew(lab: Lab) -> None:
    lab.topic("orders", 1)
    for name, library in {"shop": "librdkafka", "shop-java": "java", "shop-python": "kafka-python"}.items():
        lab.produce(name, "orders", library=library, **SELDOM)
    lab.wait(136)
    lab.freeze_broker(1, 40)
    lab.wait(80)
    lab.kill_broker(1)
    lab.wait(2)
    lab.start_broker(1)
    lab.wait(40)
    lab.never("half_open_connections")
    for analysis in ("broker_away", "unanswered_requests", "slow_broker", "duplicate_records"):
        lab.allow(analysis)


@workload("Clients have the address of a web server.")
def a_web_server(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.program("web", "answer", "none", [sys.executable, "-c", _REFUSES])
    lab.produce("shop", "orders")
    lost = {f"lost-{library}": library for library in ("librdkafka", "java", "kafka-python")}
    for name, library in lost.items():
        lab.produce(name, "orders", library=library, bootstrap=f"{lab.network.address('web')}:9092")
    lab.wait(15)
    for name in lost:
        lab.expect("not_kafka", client_address=lab.network.address(name), spoken_by="broker")
    lab.never("not_kafka", client_address=lab.network.address("shop"))


@workload(
    "A load balancer ends each connection after four seconds, used or not; a look-alike never does.",
    variants={"never": {"seconds": 600}},
)
def balancer_ends_connections(lab: Lab, seconds: int = 4) -> None:
    lab.topic("orders", 3)
    where = lab.network.address("balancer")
    text = BALANCES.format(host=lab.network.address("broker-1"), seconds=seconds)
    lab.program("balancer", "balance", "none", [sys.executable, "-c", text])
    advertise(lab, where)
    lab.produce("shop", "orders", library="java", rate=20, bootstrap=f"{where}:9092")
    lab.consume("billing", "orders", group="billing", library="kafka-python", bootstrap=f"{where}:9092")
    lab.wait(40)
    for name in ("shop", "billing"):
        (lab.expect if seconds < 60 else lab.never)("cut_connections", client_id=name)
    for analysis in ("unanswered_requests", "reconnect_loop"):
        lab.allow(analysis)


@workload("A tunnel loses packets of more than 900 bytes: small requests pass, large ones do not.")
def large_packets_vanish(lab: Lab) -> None:
    lab.topic("orders", 1)
    for name in ("camera", "sensor"):
        large = ["-m", "length", "--length", "901:65535"]
        _drop(lab, "broker-1", "-s", lab.network.address(name), *large)
    lab.produce("near", "orders", size=6000, noise=1)
    lab.produce("camera", "orders", size=6000, noise=1, socket_timeout_ms=5000, request_timeout_ms=5000)
    lab.produce("sensor", "orders", library="kafka-python")
    lab.wait(28)
    lab.expect("unanswered_requests", client_id="camera")
    lab.never("unanswered_requests", client_id=["near", "sensor"])
    lab.allow("no_compression")
