"""A connection as the tap and /connections show it."""

import json
import time

import msgspec

from tests.proxy.test_virtual_cluster import BEAT, BEATEN
from tests.support.links import run
from tests.support.virtual_clusters import Broker, ask, front, listening


def test_a_connection_as_it_is_shown_and_told_of() -> None:
    async def work() -> None:
        broker = Broker()
        async with listening(broker.serve) as broker.port, front(f"127.0.0.1:{broker.port}") as proxy:
            reader, writer = await proxy.connect(proxy.port + 1)
            await ask(reader, writer, BEAT)
            link = next(iter(proxy.worker.links))
            row = msgspec.to_builtins(proxy.cluster.row_of(link, time.monotonic_ns(), 5))
            client = "{}:{}".format(*writer.get_extra_info("sockname"))
            assert 0 <= row.pop("idle_s") <= row.pop("age_s") < 60
            assert row == {
                "worker": 5,
                "number": link.number,
                "cluster": "default",
                "client": client,
                "broker": f"127.0.0.1:{broker.port}",
                "node_id": 0,
                "requests": 1,
                "responses": 1,
                "request_bytes": len(BEAT),
                "response_bytes": len(BEATEN),
                "in_flight": 0,
                "last_api": "Heartbeat",
                "tls": False,
            }
            told = json.loads(proxy.cluster.describe(link, True))
            assert (told["client"], told["broker"], told["from_start"]) == (client, row["broker"], True)
            writer.close()

    run(work)
