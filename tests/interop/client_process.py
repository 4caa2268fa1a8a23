"""A client in a process of its own: `python -m tests.interop.client_process CLIENT RELEASE BOOTSTRAP CA TOPIC COUNT SETTINGS`.

It produces COUNT records over TLS, reads them back, and prints as JSON how many were acknowledged and the values that it got.
SETTINGS are those of the producer, as JSON.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.interop.clients import CLIENTS
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import close_tools
from tests.support.kafka.security import Security


def main(name: str, release: str, bootstrap: str, ca: str, topic: str, count: str, settings: str) -> dict[str, Any]:
    client = next(each for each in CLIENTS if each.name == name)
    cluster = cast(Any, SimpleNamespace(release=release))
    entrance = Entrance(cluster, bootstrap, Security("SSL", ca=Path(ca)))
    try:
        acknowledged = client.produce(entrance, topic, int(count), **json.loads(settings))
        return {
            "acknowledged": acknowledged,
            "values": [value.decode() for value in client.consume(entrance, topic, int(count))],
        }
    finally:
        close_tools()


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
