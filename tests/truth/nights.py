"""What wakes people at night: what changed under clients, ways that are too long, keepers that are gone."""

import shutil
import subprocess
from pathlib import Path

from tests.support.certificates import DAY
from tests.support.kafka.jars import run_tool
from tests.support.kafka.processes import stop
from tests.truth.brokers import OTHER_USER, PORTS
from tests.truth.lab import Lab, workload
from tests.truth.operations import ZOOKEEPER

CONFIGS, ACLS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.AclCommand"
SCRAM = {"listener": "SASL", "mechanism": "SCRAM-SHA-256"}


def _alter(lab: Lab, topic: str, setting: str) -> float:
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--entity-type", "topics", "--entity-name", topic]
    lab.tool(CONFIGS, *words, "--add-config", setting)
    return lab.note(f"{topic} has {setting}")


def _add_settings(lab: Lab, node: int, **settings: str) -> None:
    lines = "".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items())
    file = lab.cluster.brokers[node].file
    file.write_text(file.read_text() + lines, encoding="utf-8")


def _drop(lab: Lab, host: str, chain: str, *words: str) -> float:
    subprocess.run([*lab.network.inside(host), "iptables", "-A", chain, *words, "-j", "DROP"], check=True)
    return lab.note(f"{host} drops {' '.join(words)}")


@workload("The way to a broker and back takes longer than two clients wait for answers.")
def waits_less_than_the_way(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.network.delay("far", 600)
    began = lab.produce("shop", "orders", host="far", socket_timeout_ms=1000, request_timeout_ms=1000).started
    java = {"request_timeout_ms": 1000, "delivery_timeout_ms": 3000, "linger_ms": 0}
    lab.produce("shop-java", "orders", host="far", library="java", **java)
    lab.produce("near", "orders")
    lab.wait(25)
    cause = "waits less than the way takes"  # librdkafka's producer gets through in the end
    lab.expect("reconnect_loop", at=began + 12, within=14, client_id="shop-java", cause=cause)
    lab.allow("reconnect_loop", client_id="shop", cause=cause)
    for analysis in ("unreachable_brokers", "slow_broker", "broker_away"):
        lab.never(analysis)


@workload("Clients have the address of the controllers' listener.", whole=True)
def controllers_port(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    where = lab.cluster.brokers[1].where("CONTROL")
    began = lab.note("lost clients start")
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(f"lost-{library}", "orders", library=library, bootstrap=where)
    lab.wait(22)
    for library in ("librdkafka", "java", "kafka-python"):
        cause = "listener of controllers"
        lab.expect("reconnect_loop", at=began + 16, within=18, client_id=f"lost-{library}", cause=cause)


@workload("Clients of Java, which try once in 8 s, speak TLS to clear text, and the other way.", secure=True)
def connects_once_wrongly(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    lab.produce("shop-tls", "orders", listener="TLS")
    lab.wait(4)
    once = {"library": "java", "reconnect_backoff_ms": 8000, "reconnect_backoff_max_ms": 8000}
    began = lab.produce("tls", "orders", speaks="SSL", **once).started
    lab.produce("clear", "orders", listener="TLS", speaks="PLAINTEXT", **once)
    lab.wait(26)
    for name, cause in (("tls", "TLS to a listener of clear text"), ("clear", "clear text to a TLS listener")):
        address = lab.network.address(name)
        lab.expect("reconnect_loop", at=began + 8, within=8, client_address=address, cause=cause)


@workload("Clients of Python are told the release of a broker that is newer.", healthy=True)
def told_an_old_release(lab: Lab) -> None:
    lab.topic("orders", 1)
    for release in ((0, 10, 2), (2, 0)):
        words = {"library": "kafka-python", "api_version": release}
        lab.produce(f"shop-{release[0]}", "orders", **words)
        lab.consume(f"billing-{release[0]}", "orders", group=f"billing-{release[0]}", **words)
    lab.wait(14)
    lab.allow("readiness", client_id=["shop-0", "billing-0"])  # Kafka 4 refuses what they are told to send


@workload("ZooKeeper is gone when a broker of three is killed: nobody elects leaders.", release=ZOOKEEPER, nodes=3)
def zookeeper_gone(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
    lab.consume("billing", "orders", group="billing", library="java")
    lab.wait(9)
    assert lab.cluster._keeper
    stop(lab.cluster._keeper)
    lab.note("ZooKeeper is killed")
    lab.wait(4)
    killed = lab.kill_broker(2)
    lab.wait(50)
    where = lab.cluster.brokers[2].where("PLAIN")
    lab.expect("broker_away", at=killed, broker=where, stopped="produce", named_seconds=list(range(40, 90)))
    lab.allow("broker_away", at=killed, broker=where)
    for analysis in ("stale_leader", "not_enough_replicas", "tiny_batches", "coordinator_errors"):
        lab.allow(analysis)
    lab.allow("refused_requests", error_name="REQUEST_TIMED_OUT")  # acks=all, and commits
    for analysis in ("unanswered_requests", "no_connection", "unreachable_brokers", "metadata_storm"):
        lab.never(analysis)  # broker_away says why


@workload("The broker's certificate has expired.", secure=True)
def certificate_expired(lab: Lab) -> None:
    lab.topic("orders", 1)
    assert lab.cluster.authority
    lab.stop_broker(1)
    pair = lab.cluster.authority.issue("expired", valid=-DAY / 2)
    keystore = lab.cluster.authority.folder / "broker.keystore.pem"
    keystore.write_bytes(Path(pair.key).read_bytes() + Path(pair.certificate).read_bytes())
    lab.start_broker(1)
    began = lab.note("clients start")
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", listener="TLS", library=library)
    lab.wait(18)
    for library in ("librdkafka", "java"):
        address = lab.network.address(f"shop-{library}")
        lab.expect("tls_failed", at=began + 5, within=7, client_address=address, alert="~client")
    lab.allow("tls_failed")
    lab.allow("reconnect_loop")


@workload("Logins are switched on at a listener, and its clients were not told.", secure=True)
def logins_switched_on(lab: Lab) -> None:
    lab.topic("orders", 1)
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library)
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(8)
    kinds = dict.fromkeys(("CONTROL", "INNER", "OPEN"), "PLAINTEXT")
    kinds |= {"PLAIN": "SASL_PLAINTEXT", "SASL": "SASL_PLAINTEXT", "TLS": "SSL", "SASL_TLS": "SASL_SSL"}
    lab.stop_broker(1)
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    protocols = ",".join(f"{name}:{kind}" for name, kind in kinds.items())
    _add_settings(lab, 1, listener_security_protocol_map=protocols)
    name = "listener_name_plain_scram-sha-256_sasl_jaas_config"
    _add_settings(lab, 1, listener_name_plain_sasl_enabled_mechanisms="SCRAM-SHA-256", **{name: jaas})
    back = lab.start_broker(1)
    lab.wait(18)
    for role in ("shop", "billing"):
        for library in ("librdkafka", "java"):
            cause = "no login at a listener of SASL"
            lab.expect("reconnect_loop", at=back, within=6, client_id=f"{role}-{library}", cause=cause)
    for analysis in ("broker_away", "unanswered_requests", "no_connection", "metadata_storm", "coordinator_errors"):
        lab.allow(analysis)


@workload("A password is changed; one of its programs restarts with the old one.", secure=True)
def password_changed(lab: Lab) -> None:
    lab.topic("orders", 2)
    clients = [lab.produce("shop", "orders", **SCRAM), lab.produce("shop-java", "orders", library="java", **SCRAM)]
    lab.consume("billing", "orders", group="billing", **SCRAM)
    lab.wait(7)
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--entity-type", "users", "--entity-name", "alice"]
    lab.tool(CONFIGS, *words, "--add-config", "SCRAM-SHA-256=[password=of-tomorrow]")
    lab.produce("told", "orders", password="of-tomorrow", **SCRAM)
    lab.wait(3)
    started = [client.restart() for client in clients]
    lab.wait(12)
    for client, at in zip(clients, started, strict=True):
        lab.expect("authentication_failed", at=at + 3, within=5, client_id=client.client_id)
    lab.never("authentication_failed", client_id=["told", "billing"])


@workload("A user's permissions are withdrawn while it works.", secure=True, allow_everyone_if_no_acl_found="false")
def permissions_withdrawn(lab: Lab) -> None:
    lab.topic("orders", 1)
    where = ["--bootstrap-server", lab.cluster.open]
    who = ["--allow-principal", f"User:{OTHER_USER}", "--operation", "All"]
    for resource in (["--topic", "orders"], ["--group", "billing"]):
        lab.tool(ACLS, *where, "--add", *who, *resource)
    bob = {"listener": "SASL", "user": OTHER_USER}
    lab.produce("shop", "orders", **bob)
    lab.consume("billing", "orders", group="billing", library="java", **bob)
    lab.produce("alice", "orders", **SCRAM)
    lab.wait(8)
    lab.tool(ACLS, *where, "--remove", "--force", *who, "--topic", "orders")
    withdrawn = lab.note("bob may no longer use orders")
    lab.wait(12)
    for name in ("shop", "billing"):
        lab.expect("unauthorized_access", at=withdrawn, within=3, client_id=name, resource="orders")
    lab.never("unauthorized_access", client_id="alice")
    lab.allow("plaintext_credentials")


@workload("Topics get settings that their producers do not fit.", nodes=3)
def settings_tightened(lab: Lab) -> None:
    for topic in ("images", "orders", "prices"):
        lab.topic(topic, 1, replicas=2)
    for library in ("librdkafka", "java"):
        lab.produce(f"camera-{library}", "images", size=60_000, rate=1, noise=1, library=library)
        lab.produce(f"shop-{library}", "orders", acks="all", library=library)
        lab.produce(f"import-{library}", "prices", acks="all", library=library)
    lab.wait(6)
    at = {
        "camera": _alter(lab, "images", "max.message.bytes=20000"),
        "shop": _alter(lab, "orders", "min.insync.replicas=3"),  # more than it has: all of them are enough
        "import": _alter(lab, "prices", "cleanup.policy=compact"),
    }
    lab.wait(12)
    for library in ("librdkafka", "java"):
        lab.expect("message_too_large", at=at["camera"], within=3, client_id=f"camera-{library}", topic="images")
        lab.expect("refused_requests", at=at["import"], within=3, client_id=f"import-{library}", resource="prices")
    (lab.never if lab.cluster.release.startswith("4") else lab.allow)(
        "not_enough_replicas"
    )  # old ones want three of two
    lab.allow("no_compression")


def _name_hosts(lab: Lab, host: str, names: dict[str, str]) -> Path:
    """Have a host know addresses by names; the folder is to be removed."""
    lab.network.address(host)
    folder = Path("/etc/netns") / lab.network.inside(host)[3]
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{address} {name}\n" for name, address in names.items())
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{lines}", encoding="utf-8")
    return folder


def _name_brokers(lab: Lab, hosts: list[str]) -> list[Path]:
    """Have all brokers advertise names, which these hosts know."""
    names = {f"kafka-{node}.lab": lab.network.address(broker.host) for node, broker in lab.cluster.brokers.items()}
    folders = [_name_hosts(lab, host, names) for host in hosts]
    for node, broker in lab.cluster.brokers.items():
        broker.stop()
        others = ",".join(f"{name}://{broker.where(name)}" for name in ("OPEN", "INNER"))
        _add_settings(lab, node, advertised_listeners=f"{others},PLAIN://kafka-{node}.lab:{PORTS['PLAIN']}")
    for broker in lab.cluster.brokers.values():
        broker.start()
    lab.cluster.wait()
    return folders


@workload("Brokers advertise names; one host knows an old address of one, and then another broker is killed.", nodes=3)
def names_of_brokers(lab: Lab) -> None:
    hosts = ["shop-librdkafka", "shop-java", "billing-kafka-python", "stale"]
    folders = _name_brokers(lab, hosts)
    old = lab.network.address("old-machine")
    file = folders[-1] / "hosts"
    file.write_text(file.read_text().replace(lab.network.address("broker-3"), old), encoding="utf-8")
    try:
        lab.topic("orders", 3)
        began = lab.produce("stale", "orders", rate=20).started
        for library in ("librdkafka", "java"):
            lab.produce(f"shop-{library}", "orders", library=library, rate=20)
        lab.consume("billing-kafka-python", "orders", group="billing", library="kafka-python")
        lab.wait(12)
        killed = lab.kill_broker(2)
        lab.wait(18)
    finally:
        for folder in folders:
            shutil.rmtree(folder)
    lab.expect("broker_away", at=killed, broker=lab.cluster.brokers[2].where("PLAIN"))
    lab.expect("no_connection", at=began + 2, within=4, client_id="stale", address=f"{old}:9092", node_id="3")
    for analysis in ("stale_leader", "unanswered_requests", "no_connection", "metadata_storm", "tiny_batches"):
        lab.allow(analysis)


@workload(
    "A firewall keeps a broker from fetching from another one.", nodes=3, whole=True, replica_lag_time_max_ms="4000"
)
def replication_cut(lab: Lab) -> None:
    lab.cluster.topic("orders", 1, 2, {"min.insync.replicas": "2"})  # on brokers 1 and 2
    lab.topic("other", 3)
    lab.produce("shop", "orders", acks="all")
    lab.produce("shop-other", "other", acks="all")
    lab.wait(8)
    source = lab.network.address("broker-2")
    cut = _drop(lab, "broker-1", "INPUT", "-s", source, "-p", "tcp", "--dport", str(PORTS["INNER"]))
    lab.wait(45)
    where = lab.cluster.brokers[1].where("INNER")
    lab.expect("not_enough_replicas", at=cut + 6, within=6, client_id="shop", topic="orders")
    lab.expect("no_connection", at=cut + 25, within=25, client_address=source, address=where, how="no answer")
    lab.never("broker_away")
    lab.never("refused_requests")
    for analysis in ("unanswered_requests", "under_replicated"):
        lab.allow(analysis)


@workload("Large packets vanish before they get to the capture.")
def large_packets_unseen(lab: Lab) -> None:
    lab.topic("orders", 1)
    large = ["-p", "tcp", "--dport", str(PORTS["PLAIN"]), "-m", "length", "--length", "901:65535"]
    for name in ("camera", "sensor"):
        _drop(lab, name, "OUTPUT", *large) if lab.network.address(name) else None
    lab.produce("near", "orders", size=6000, noise=1)
    short = {"socket_timeout_ms": 5000, "request_timeout_ms": 5000}
    lab.produce("camera", "orders", size=6000, noise=1, **short)
    lab.produce("sensor", "orders", library="kafka-python")
    lab.wait(28)
    lab.expect("reconnect_loop", client_id="camera", cause="nothing more arrives")
    lab.never("unanswered_requests", client_id=["near", "sensor"])
    lab.allow("no_compression")


@workload("The only broker comes back with an empty disk, as another cluster.")
def disk_wiped(lab: Lab) -> None:
    lab.topic("orders", 1)
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all", rate=20)
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(9)
    broker = lab.cluster.brokers[1]
    lab.stop_broker(1)
    shutil.rmtree(broker.folder / "data")
    run_tool(
        lab.cluster.release, "kafka.tools.StorageTool", "format", "-t", "AnotherClusterOfTheLab", "-c", str(broker.file)
    )
    back = lab.start_broker(1)
    lab.topic("orders", 1)
    lab.wait(14)
    lab.expect("lost_records", at=back + 3, within=6, topic="orders", partition=0)
    for analysis in ("broker_away", "unanswered_requests", "unknown_topic_loop", "offset_reset", "coordinator_errors"):
        lab.allow(analysis)
    for analysis in ("rebalances", "refused_commits", "refused_requests"):
        lab.allow(analysis)
    lab.never("session_expired")


@workload("One host of two is far away: 1.2 s there and back.", healthy=True)
def one_far_host(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.network.delay("far", 600)
    for library in ("librdkafka", "java"):
        lab.produce(f"far-{library}", "orders", library=library, host="far", rate=20)
        lab.consume(f"far-reader-{library}", "orders", group=f"far-{library}", library=library, host="far")
    lab.produce("near", "orders", rate=20)
    lab.consume("near-reader", "orders", group="near")
    lab.wait(35)
    lab.never("slow_broker")
    lab.never("falling_behind", cause="~broker")


@workload("ZooKeeper is away for some seconds; clients do not notice.", release=ZOOKEEPER, healthy=True)
def zookeeper_restarted(lab: Lab) -> None:
    lab.topic("orders", 2)
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(8)
    keeper = lab.cluster._keeper
    assert keeper
    subprocess.run(["kill", "-STOP", str(keeper.pid)], check=True)
    lab.note("ZooKeeper stands still")
    lab.wait(4)
    subprocess.run(["kill", "-CONT", str(keeper.pid)], check=True)
    lab.wait(10)


@workload("A broker of three gets a new disk; all is replicated.", nodes=3, healthy=True)
def disk_replaced(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(8)
    lab.stop_broker(3)
    data = lab.cluster.brokers[3].folder / "data"
    for folder in data.iterdir():
        if folder.is_dir() and not folder.name.startswith("__cluster_metadata"):
            shutil.rmtree(folder)
    lab.start_broker(3)
    lab.wait(12)


@workload("The first 200 bytes of packets of TLS and logins.", secure=True, snap=200, healthy=True)
def short_packets_of_logins(lab: Lab) -> None:
    lab.topic("orders", 2)
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library, **SCRAM)
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, listener="TLS")
    lab.wait(16)
