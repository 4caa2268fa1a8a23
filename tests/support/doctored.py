"""Brokers of a set-up that is right or wrong in one way, and what `kproxy doctor` finds there."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kproxy.config import Config, ListenerTls
from kproxy.config.reading import parse_config
from kproxy.doctor.examine import examine
from kproxy.doctor.findings import Finding, State
from kproxy.login.client_settings import Credentials
from kproxy.proxy.network.tls import listener_context
from tests.support.certificates import Pair
from tests.support.ports import free_ports
from tests.support.virtual_clusters import Broker, Brokers, listening

PATIENCE_S = 20.0


def config_of(folder: Path, bootstrap: str, **parts: Any) -> Config:
    """A configuration with one cluster before *bootstrap*; parts with ``cluster_`` are the cluster's."""
    cluster = {name.removeprefix("cluster_"): value for name, value in parts.items() if name.startswith("cluster_")}
    others = {name: value for name, value in parts.items() if not name.startswith("cluster_")}
    listen = f"127.0.0.1:{free_ports(12)}"
    text = {"admin": None, "clusters": [{"listen": listen, "bootstrap": [bootstrap], **cluster}], **others}
    return parse_config(json.dumps(text), str(folder / "kproxy.yaml"))


async def findings(config: Config, patience: float = PATIENCE_S, login: Credentials | None = None) -> list[Finding]:
    """All of them."""
    return [finding async for finding in examine(config, patience, login=login)]


def problems(found: list[Finding]) -> list[str]:
    """What is wrong, each as "subject: what"."""
    return [f"{one.subject}: {one.what}" for one in found if one.state is State.PROBLEM]


def context(pair: Pair) -> ssl.SSLContext:
    """That of a broker with this certificate."""
    return listener_context(ListenerTls(certificate=pair.certificate, key=pair.key))


@contextlib.asynccontextmanager
async def broker(brokers: Brokers | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A broker that tells of *brokers*, by default of itself; gives its port."""
    made = Broker(brokers)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # handshakes that are refused on purpose
    async with listening(made.serve, tls) as port:
        made.port = port
        yield port
