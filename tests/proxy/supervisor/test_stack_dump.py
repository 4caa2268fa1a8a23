"""The stack of another process, as faulthandler of Python writes it."""

import asyncio
import os
import subprocess
import sys
from typing import Any

from kproxy.proxy.child_process import STACK_SIGNAL
from kproxy.proxy.supervisor.processes import Process
from kproxy.proxy.supervisor.stack_dump import create_stack_file, frames, stack_of

SCRIPT = """
import faulthandler, itertools, os, sys, threading, time
faulthandler.register(int(sys.argv[2]), os.fdopen(int(sys.argv[1]), "wb"), all_threads=True)
def wait():
    time.sleep(600)
def in_c():
    print(flush=True)
    sum(itertools.repeat(0))
threading.Thread(target=wait, daemon=True).start()
in_c()
"""


def test_a_process_that_hangs_in_c_says_where_its_threads_are() -> None:
    async def main() -> Any:
        fd = create_stack_file()
        words = [sys.executable, "-c", SCRIPT, str(fd), str(int(STACK_SIGNAL))]
        with subprocess.Popen(words, stdout=subprocess.PIPE, pass_fds=[fd]) as started:
            assert started.stdout is not None
            started.stdout.readline()
            process = Process(started)
            found = await stack_of(process, fd)
            process.kill()
            await process.ended
        os.close(fd)
        return found

    found = asyncio.run(main())
    threads = [part.split("\n") for part in "\n".join(found).split("\n--\n")]
    assert {thread[0].split(" ")[1] for thread in threads} == {"in_c", "wait"}
    assert ["in_c", "<module>"] in [[frame.split(" ")[1] for frame in thread] for thread in threads]


def test_what_is_no_dump_has_no_frames() -> None:
    assert frames("") == frames("Fatal Python error: nothing\n  in particular\n") == []
