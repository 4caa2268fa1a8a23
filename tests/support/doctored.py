"""Brokers of a set-up that is right or wrong in one way, and what `kproxy doctor` finds there."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

from kproxy.config.reading import parse_config
from kproxy.config.structs import Config, ListenerTls
from kproxy.doctor.examine import examine
from kproxy.doctor.findings import Finding, State
from kproxy.login.client_settings import Credentials
from kproxy.proxy.network.tls import listener_context
from tests.support.backend import answer_to, frame_from, listening
from tests.support.certificates import Pair
from tests.support.ports import free_ports
from tests.support.virtual_clusters import API_VERSIONS, METADATA, Broker, Brokers, metadata

PATIENCE_S = 20.0
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


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
async def broker(
    brokers: Brokers | None = None, tls: ssl.SSLContext | None = None, topics: Sequence[str] = ()
) -> AsyncIterator[int]:
    """A broker that tells of *brokers*, by default of itself, and of *topics*; gives its port."""
    made = Broker(brokers)
    made.topics = topics
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # handshakes that are refused on purpose
    async with listening(made.serve, tls) as port:
        made.port = port
        yield port


class LoginBroker:
    """A broker that wants a login by PLAIN and lets everybody in; ``logins``: what it was sent of them.

    *never_says*: called when a login comes, which then gets no answer.
    """

    def __init__(self, never_says: Callable[[], None] | None = None) -> None:
        self.port = 0
        self._never_says = never_says
        self.logins: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until something is asked that is told only after a login."""
        known = len(self.logins)
        while True:
            frame = await frame_from(reader)
            answer = self.answer(frame, logged_in=len(self.logins) > known)
            if answer is None:
                break
            if self._never_says and len(self.logins) > known:
                self._never_says()
                continue
            writer.write(answer_to(frame, answer))

    def answer(self, frame: bytes, logged_in: bool) -> bytes | None:
        """The body of the response; None: the connection is closed."""
        key, version, _, client_id = unpack_from(">hhih", frame)
        body = frame[10 + client_id :]
        if key == API_VERSIONS:
            offered = ((METADATA, 1), (SASL_HANDSHAKE, 1), (API_VERSIONS, 0), (SASL_AUTHENTICATE, 0))
            return pack(">hi", 0, len(offered)) + b"".join(pack(">hhh", api, 0, most) for api, most in offered)
        if key == SASL_HANDSHAKE:
            return pack(">hih5s", 0 if body == b"\0\5PLAIN" else 33, 1, 5, b"PLAIN")
        if key == SASL_AUTHENTICATE:
            self.logins.append(body[4:])
            return pack(">hhi", 0, -1, 0)
        return metadata(version, [(0, "127.0.0.1", self.port)], ["orders"]) if key == METADATA and logged_in else None


@contextlib.asynccontextmanager
async def login_broker(
    tls: ssl.SSLContext | None = None, never_says: Callable[[], None] | None = None
) -> AsyncIterator[LoginBroker]:
    """One that listens."""
    made = LoginBroker(never_says)
    async with listening(made.serve, tls) as port:
        made.port = port
        yield made
