"""Traffic to draw the dashboards from: a cluster, kproxy, clients and a Prometheus. `python -m tests.dashboards.play DIR`.

Three brokers, one of which is restarted on the way; producers in several codecs, two groups of which one is slow and loses a
member, an old client, one without rights to a topic. Then dashboards/render.py draws into DIR. `--minutes` (4) of traffic.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml
from confluent_kafka import Consumer, Producer

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import ROOT, Proxy, cluster
from tests.support.ports import free_ports

TOPICS = {"orders": 6, "payments": 3, "clicks": 6}
FILTERS = [{"use": "headers", "with": {"topics": ["payments"]}}]


def produce(bootstrap: str, client_id: str, topic: str, rate: float, over: threading.Event, **settings: object) -> None:
    """Produce at that rate until it is over."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": client_id, "linger.ms": 5, **settings})
    number = 0
    while not over.wait(1 / rate):
        producer.produce(topic, b"%d" % number * 40, key=b"%d" % (number % 50))
        producer.poll(0)
        number += 1
    producer.flush(5)


def consume(bootstrap: str, group: str, client_id: str, topics: list[str], pause: float, over: threading.Event) -> None:
    """Consume, with a pause after each record, until it is over."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 8_000,
            "auto.commit.interval.ms": 1_000,
        }
    )
    consumer.subscribe(topics)
    while not over.is_set():
        if consumer.poll(0.2) is not None and pause:
            over.wait(pause)
    consumer.close()


def traffic(brokers: Cluster, bootstrap: str, minutes: float) -> None:
    """Let clients work, come and go; restart a broker in the middle."""
    over, leaves = threading.Event(), threading.Event()
    work = [
        (produce, (bootstrap, "shop", "orders", 100.0, over), {"compression.type": "lz4"}),
        (produce, (bootstrap, "billing", "payments", 40.0, over), {"acks": "all"}),
        (produce, (bootstrap, "web", "clicks", 150.0, over), {"compression.type": "zstd", "acks": 1}),
        (consume, (bootstrap, "shipping", "shipping-1", ["orders"], 0.0, over), {}),
        (consume, (bootstrap, "shipping", "shipping-2", ["orders"], 0.0, leaves), {}),
        (consume, (bootstrap, "reports", "reports-1", ["clicks", "payments"], 0.02, over), {}),
    ]
    threads = [threading.Thread(target=one, args=args, kwargs=settings, daemon=True) for one, args, settings in work]
    for thread in threads:
        thread.start()
    time.sleep(minutes * 30)
    leaves.set()
    last = brokers.brokers[max(brokers.brokers)]
    last.stop(patience=20)
    time.sleep(5)
    last.start()
    time.sleep(minutes * 30)
    over.set()
    for thread in threads:
        thread.join(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=4.0)
    arguments = parser.parse_args()
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        sys.exit("prometheus is not installed")
    with tempfile.TemporaryDirectory(prefix="kproxy-play-") as name:
        folder = Path(name)
        (folder / "kafka").mkdir()
        brokers = Cluster(folder / "kafka", NEWEST, nodes=3)
        proxy = Proxy(folder / "kproxy", [cluster(brokers.bootstrap(), filters=FILTERS)])
        server = None
        try:
            brokers.start()
            for topic, partitions in TOPICS.items():
                brokers.topic(topic, partitions)
            proxy.start()
            port = free_ports(1)
            scrape = {"job_name": "kproxy", "static_configs": [{"targets": [proxy.config["admin"]]}]}
            config = {"global": {"scrape_interval": "2s"}, "scrape_configs": [scrape]}
            (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
            words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
            words += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
            server = subprocess.Popen([prometheus, *words], cwd=folder)
            traffic(brokers, proxy.bootstrap(), arguments.minutes)
            url = f"http://127.0.0.1:{port}"
            render = [ROOT / "dashboards" / "render.py", "--prometheus", url, "--minutes", str(arguments.minutes + 0.2)]
            subprocess.run([sys.executable, *render, "-o", arguments.out], check=True)
        finally:
            if server is not None:
                server.terminate()
                server.wait()
            proxy.close()
            brokers.close()


if __name__ == "__main__":
    main()
