"""A child process without a supervisor: `python -m tests.support.child MODULE ARGUMENTS`, which are JSON."""

import subprocess
import sys

import msgspec

from kproxy.proxy.child_process import ChildArguments, become_child
from kproxy.proxy.environment import environment


def spawn_child(module: str, arguments: ChildArguments) -> subprocess.Popen[bytes]:
    """Start one."""
    command = [sys.executable, "-m", __name__, module, msgspec.json.encode(arguments).decode()]
    return subprocess.Popen(command, pass_fds=arguments.fds(), env=environment())


if __name__ == "__main__":
    become_child(sys.argv[1], msgspec.json.decode(sys.argv[2], type=ChildArguments))
