"""Options of filters that change while requests are in flight: every exchange ends, each under one set of options."""

import re
import signal
import threading
from collections.abc import Callable
from struct import pack
from typing import Any

from kproxy.protocol.records import Record, write_batches
from kproxy.protocol.records.editing import RecordBatch
from tests.chaos.conftest import FIXED, Start
from tests.chaos.peers import Peer, Script, ScriptedBroker, client
from tests.support.filtering import make, part, request_frame
from tests.support.frames import frame

Scripted = Callable[[Script], ScriptedBroker]
TOGETHER, TURNS, CONNECTIONS = 20, 60, 3
PRODUCED = b"\0\1" + bytes(4) + b"\0"  # of version 9: no tags, no topics, throttle_time_ms, no tags


def filters(run: int) -> list[dict[str, Any]]:
    """A chain whose every option changes from run to run."""
    rule = {"when": f'topic.startsWith("secret-{run}")', "name": f"run {run}"}
    limit = {"by": "client_id", "produce_bytes": 1_000_000_000 + run, "requests": 1_000_000 + run}
    mask = {"rules": [{"topics": [f"people-{run}"], "fields": [f"$.a{run}"]}]}
    return [
        {"use": "headers", "with": {"fixed": {"run": str(run)}, "origin": None}},
        {"use": "deny", "with": {"rules": [rule]}},
        {"use": "throttle", "with": {"limits": [limit], "burst": 10.0 + run}},
        {"use": "mask", "with": mask},
    ]


def produce(number: int) -> bytes:
    records = write_batches([RecordBatch([Record(value=b"%d" % number)])])
    data = part("ProduceRequest", "PartitionProduceData", index=0, records=records)
    topic = part("ProduceRequest", "TopicProduceData", name="orders", partition_data=[data])
    return request_frame("ProduceRequest", 9, make("ProduceRequest", acks=-1, topic_data=[topic]), number)


def test_options_that_change_under_load_lose_no_exchange(scripted: Scripted, proxied: Start) -> None:
    runs: list[bytes] = []

    def producing(peer: Peer) -> None:
        while True:
            asked = peer.frame()
            found = re.search(rb"\x06run.([0-9]+)", asked)  # the header: zigzag size, name, size, value
            assert found is not None
            runs.append(found[1])
            peer.send(frame(asked[8:12] + PRODUCED))

    proxy = proxied(scripted(producing).address, virtual={"addresses": FIXED, "filters": filters(0)})
    over, reloads = threading.Event(), [0]

    def reload() -> None:
        while not over.wait(0.2):
            reloads[0] += 1
            proxy.config["clusters"][0]["filters"] = filters(reloads[0])
            proxy.write()
            proxy.process.send_signal(signal.SIGHUP)

    reloading = threading.Thread(target=reload)
    reloading.start()
    try:
        turn = 0
        while turn < TURNS or (len(set(runs)) < 3 and turn < 100 * TURNS):
            peers = [client(proxy.bootstrap()) for _ in range(CONNECTIONS)]
            for peer in peers:
                peer.send(b"".join(produce(number) for number in range(TOGETHER)))
            for peer in peers:
                assert [peer.frame() for _ in range(TOGETHER)] == [
                    frame(pack(">i", number) + PRODUCED) for number in range(TOGETHER)
                ]
                peer.socket.close()
            turn += 1
    finally:
        over.set()
        reloading.join()
    assert len(set(runs)) >= 3
    assert len(runs) == turn * CONNECTIONS * TOGETHER
    assert "mistake" not in proxy.said()
    assert proxy.count("kproxy_filter_faults_total") == 0
