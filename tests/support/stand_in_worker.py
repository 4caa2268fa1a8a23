"""A child of the supervisor that speaks the protocol of control.py, and forwards nothing: what is done to it can be seen.

What it does is written in the name of the cluster it is configured with, as words between dots: ``fail`` says failed, ``die``
exits before it is ready, ``mute`` says nothing, ``deaf`` does not end when drained. It logs what it is told, with its process id.
"""

import asyncio
import os
import sys

from kproxy.proxy.control import Channel, begin_child, parse_child_arguments
from kproxy.proxy.counted import Total
from kproxy.proxy.counters import Counters


async def serve(channel: Channel, counters: Counters | None) -> None:
    words: list[str] = []
    await channel.say_log("info", "begun", pid=os.getpid())
    async for message in channel:
        match message["do"]:
            case "configure":
                words = message["config"]["clusters"][0]["name"].split(".")
                if "die" in words:
                    sys.exit(7)
                if "mute" in words:
                    continue
                if "fail" in words:
                    await channel.send({"said": "failed", "why": "127.0.0.1:1: address already in use"})
                    continue
                if counters and "clients" in words:
                    counters.put(Total.CONNECTIONS_OPEN, 3)
                await channel.send({"said": "brokers", "cluster": words[0], "brokers": [[os.getpid(), "b", 9092]]})
                await channel.send({"said": "ready"})
            case "connections":
                for number in range(3):
                    part = [{"number": number}]
                    answer = {"said": "connections", "id": message["id"], "connections": part, "more": number < 2}
                    await channel.send(answer)
            case "outlive" if counters:
                counters.put(Total.CONNECTIONS_OPEN, 0)
            case "drain":
                if "deaf" not in words:
                    await channel.send({"said": "drained"})
                    return
        await channel.say_log(
            "info", f"told to {message['do']}", pid=os.getpid(), reason=str(message.get("brokers", ""))
        )


async def main() -> None:
    arguments = parse_child_arguments(sys.argv[1:])
    begin_child(arguments)
    counters = Counters(arguments.counters) if arguments.counters >= 0 else None
    await serve(await Channel.of(arguments.control), counters)


if __name__ == "__main__":
    asyncio.run(main())
