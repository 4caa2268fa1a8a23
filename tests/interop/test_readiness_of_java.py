"""Java clients of many releases: what readiness says of their traffic with an older broker comes true with a newer one."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import LAST_WITH_ZOOKEEPER, NEWEST, fetch, folder_of
from tests.support.kafka.proxies import Proxy, cluster

RELEASES = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.1.1", "2.7.2", "3.5.2", "4.2.2")
AT_ONCE = 2


def client_jars(release: str) -> Path:
    """kafka-clients of a release, and what it needs."""
    kept = folder_of(f"{release}-clients")
    if not kept.is_dir():
        fetch(kept, [("org.apache.kafka", "kafka-clients", release), ("org.slf4j", "slf4j-simple", "1.7.36")])
    return kept


def works(release: str, bootstrap: str, topic: str) -> bool:
    """Whether a client of the release reads what it wrote."""
    program = str(Path(__file__).with_name("AnyRelease.java"))
    quick = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xmx128m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    command = ["java", *quick, "-cp", f"{client_jars(release)}/*", program, bootstrap, topic, f"java-{release}"]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    return done.returncode == 0


def all_of(cluster_: Cluster, bootstrap: str) -> dict[str, bool]:
    """Release -> whether its client works; each has a topic of its own."""
    topics = {release: cluster_.topic(f"of-{release}") for release in RELEASES}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ran = {release: pool.submit(works, release, bootstrap, topic) for release, topic in topics.items()}
    return {release: each.result() for release, each in ran.items()}


@pytest.mark.long
@pytest.mark.usefixtures("kafka")
def test_what_readiness_says_of_java_clients_comes_true(tmp_path: Path) -> None:
    """Clients of eight releases work with Kafka 3.9; those that are said to break with the newest Kafka do, and no others."""
    (tmp_path / "older").mkdir()
    older = Cluster(tmp_path / "older", LAST_WITH_ZOOKEEPER)
    try:
        older.start()
        settings = {"capture": {"path": str(tmp_path / "traffic.pcapng")}}
        proxy = Proxy(tmp_path / "proxy", [cluster(older.bootstrap("PLAIN"))], analysis=settings).start().analyzing()
        try:
            assert set(all_of(older, proxy.bootstrap(0)).values()) == {True}
        finally:
            proxy.stop(patience=60)
            proxy.close()
    finally:
        older.close()
    with Database(sorted(tmp_path.glob("traffic*.pcapng"))) as database:
        rows = database.run(library.load()["readiness"], target=NEWEST).to_pylist()
    said = {row["client_id"].removeprefix("java-"): row["verdict"] for row in rows if row["asker"] == "client"}
    (tmp_path / "newer").mkdir()
    newer = Cluster(tmp_path / "newer", NEWEST)
    try:
        newer.start()
        came_true = all_of(newer, newer.open)
    finally:
        newer.close()
    assert said == {release: "fine" if worked else "will break" for release, worked in came_true.items()}
    assert set(said.values()) == {"fine", "will break"}
