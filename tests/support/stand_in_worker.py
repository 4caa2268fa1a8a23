"""A child of the supervisor that answers its messages and forwards nothing: the log shows what it received.

What it does is written in the name of the cluster it is configured with, as words between dots

    fail      says failed
    die       exits before it is ready
    mute      says nothing
    unready   as analyzer says nothing
    garbled   sends a line that is no message, before it is ready
    hang      is ready, and then does not even read
    fork      starts a process that holds its end of the channel too and outlives it; sends its pid as a broker of "forked"
    clients   has clients, who leave at SIGUSR1
    deaf      does not end when drained

It logs what it receives, with its process id.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time

from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.messages import (
    Brokers,
    Channel,
    Configure,
    Connection,
    Connections,
    Drain,
    Drained,
    Failed,
    ListConnections,
    LogEvent,
    LogValue,
    Ready,
    ToAnalyzer,
    ToWorker,
)
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters

Received = ToWorker | ToAnalyzer


class StandIn:
    """One process."""

    def __init__(self, arguments: ChildArguments, channel: Channel[Received]) -> None:
        self._channel = channel
        self._worker = arguments.worker
        self._control = arguments.control
        self._counters = Counters(arguments.counters) if arguments.counters >= 0 else None
        self._words: list[str] = []

    async def serve(self) -> None:
        await self._log("begun")
        async for message in self._channel:
            match message:
                case Configure():
                    await self._configure(message.decode().clusters[0].name.split("."))
                case ListConnections(id):
                    await self._send_connections(id)
                case Drain() if "deaf" not in self._words:
                    await self._channel.send(Drained())
                    return
            name = str(message.__struct_config__.tag)
            await self._log(f"received {name}", reason=str(message.brokers) if isinstance(message, Brokers) else "")
            if "hang" in self._words:
                time.sleep(600)

    async def _configure(self, words: list[str]) -> None:
        self._words = words
        if "die" in words:
            sys.exit(7)
        if "mute" in words or ("unready" in words and self._counters is None):
            return
        if "fail" in words:
            await self._channel.send(Failed("127.0.0.1:1: address already in use"))
            return
        if "clients" in words:
            self._count_clients(3)
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._count_clients, 0)
        if "garbled" in words:
            os.write(self._control, b'{"type": "something new"}\n')
        if "fork" in words:
            other = subprocess.Popen(["sleep", "600"], pass_fds=[self._control])
            await self._channel.send(Brokers("forked", [(other.pid, "", 0)]))
        await self._channel.send(Brokers(words[0], [(os.getpid(), "b", 9092)]))
        await self._channel.send(Ready())

    async def _send_connections(self, question: int) -> None:
        for number in range(3):
            row = connection(self._worker, number)
            await self._channel.send(Connections(question, [row], more=number < 2))

    def _count_clients(self, count: int) -> None:
        if self._counters:
            self._counters.put(Total.CONNECTIONS_OPEN, count)

    async def _log(self, event: str, **keys: LogValue) -> None:
        await self._channel.send(LogEvent("info", event, {"pid": os.getpid(), **keys}))


def connection(worker: int, number: int) -> Connection:
    """An open connection as a worker lists it."""
    return Connection(worker, number, "one", "c:1", "b:1", None, 0.0, 0.0, 0, 0, 0, 0, 0, None, False)


def _on_malformed(reason: str) -> None:
    raise AssertionError(reason)


async def _serve(arguments: ChildArguments) -> None:
    await StandIn(arguments, await Channel.open(arguments.control, Received, _on_malformed, print)).serve()


def main(arguments: ChildArguments) -> None:
    asyncio.run(_serve(arguments))
