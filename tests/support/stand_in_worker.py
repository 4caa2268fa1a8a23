"""A child of the supervisor that speaks the protocol of control.py, and forwards nothing: what is done to it can be seen.

What it does is written in the name of the cluster it is configured with, as words between dots

    fail      says failed
    die       exits before it is ready
    mute      says nothing
    unready   as analyzer says nothing
    hang      is ready, and then does not even read
    fork      starts a process that holds its end of the channel too, and outlives it
    clients   has clients, who leave a while after ``outlive``
    deaf      does not end when drained

It logs what it is told, with its process id.
"""

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

from kproxy.proxy.control import Channel, ChildArguments, begin_child, parse_child_arguments
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters

A_WHILE = 1.5  # seconds, more than between two looks of the supervisor


class StandIn:
    """One process."""

    def __init__(self, arguments: ChildArguments, channel: Channel) -> None:
        self._channel = channel
        self._control = arguments.control
        self._counters = Counters(arguments.counters) if arguments.counters >= 0 else None
        self._words: list[str] = []

    async def serve(self) -> None:
        await self._channel.say_log("info", "begun", pid=os.getpid())
        async for message in self._channel:
            do = message["do"]
            if do == "configure":
                await self._configure(message["config"]["clusters"][0]["name"].split("."))
            elif do == "connections":
                await self._tell_connections(message["id"])
            elif do == "outlive":
                asyncio.get_running_loop().call_later(A_WHILE, self._count_clients, 0)
            elif do == "drain" and "deaf" not in self._words:
                await self._channel.send({"said": "drained"})
                return
            await self._log(f"told to {do}", reason=str(message.get("brokers", "")))
            if "hang" in self._words:
                time.sleep(600)

    async def _configure(self, words: list[str]) -> None:
        self._words = words
        if "die" in words:
            sys.exit(7)
        if "mute" in words or ("unready" in words and self._counters is None):
            return
        if "fail" in words:
            await self._channel.send({"said": "failed", "why": "127.0.0.1:1: address already in use"})
            return
        if "clients" in words:
            self._count_clients(3)
        if "fork" in words:
            other = subprocess.Popen(["sleep", "600"], pass_fds=[self._control])
            await self._channel.send({"said": "forked", "pid": other.pid})
        await self._channel.send({"said": "brokers", "cluster": words[0], "brokers": [[os.getpid(), "b", 9092]]})
        await self._channel.send({"said": "ready"})

    async def _tell_connections(self, question: int) -> None:
        for number in range(3):
            answer = {"id": question, "connections": [{"number": number}], "more": number < 2}
            await self._channel.send({"said": "connections", **answer})

    def _count_clients(self, count: int) -> None:
        if self._counters:
            self._counters.put(Total.CONNECTIONS_OPEN, count)

    async def _log(self, event: str, **keys: Any) -> None:
        await self._channel.say_log("info", event, pid=os.getpid(), **keys)


async def main() -> None:
    arguments = parse_child_arguments(sys.argv[1:])
    begin_child(arguments)
    await StandIn(arguments, await Channel.of(arguments.control)).serve()


if __name__ == "__main__":
    asyncio.run(main())
