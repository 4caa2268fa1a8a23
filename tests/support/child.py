"""A child process without a supervisor: `python -m tests.support.child MODULE ARGUMENTS`, which are JSON."""

import os
import socket
import subprocess
import sys
from typing import Any

import msgspec

from kproxy.proxy.child_process import ChildArguments, become_child
from kproxy.proxy.environment import environment
from kproxy.proxy.messages import Message, ToSupervisor

PATIENCE = 30  # seconds until a test that waits for another process fails


class ChildProcess:
    """A worker or an analyzer, with its supervisor's end of the channel in the test's hand; all it says is in ``heard``."""

    def __init__(self) -> None:
        self.heard: list[ToSupervisor] = []

    def spawn(self, module: str, **arguments: Any) -> None:
        """Start it (again)."""
        self.control, theirs = socket.socketpair()
        self.control.settimeout(PATIENCE)
        self._lines = self.control.makefile("rb")
        given = ChildArguments(os.getpid(), theirs.fileno(), **arguments)
        command = [sys.executable, "-m", __name__, module, msgspec.json.encode(given).decode()]
        self.process = subprocess.Popen(command, pass_fds=given.fds(), env=environment())
        theirs.close()

    def send(self, message: Message) -> None:
        """Send it a message."""
        self.control.sendall(msgspec.json.encode(message) + b"\n")

    def until(self, *types: type[Message]) -> Any:
        """The next message of these types."""
        for line in self._lines:
            message = msgspec.json.decode(line, type=ToSupervisor)
            self.heard.append(message)
            if isinstance(message, types):
                return message
        raise AssertionError(f"it ended without sending {types}: {self.heard}")

    def close(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()
        self._lines.close()
        self.control.close()


if __name__ == "__main__":
    become_child(sys.argv[1], msgspec.json.decode(sys.argv[2], type=ChildArguments))
