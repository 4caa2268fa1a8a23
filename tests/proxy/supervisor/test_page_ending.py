"""Ending: why a process has ended, by what it wrote and by its exit code, without what traffic may have put there."""

import asyncio
import subprocess
import sys

import pytest

from kproxy.page.live.process import SAYS
from kproxy.proxy.supervisor.page_ending import KEPT, OURS, Ending


def test_the_page_says_it_as_it_is_read() -> None:
    assert SAYS == OURS


def reason(code: str) -> str:
    """Of a process that runs this."""

    async def work() -> str:
        words = [sys.executable, "-S", "-c", code]
        process = await asyncio.create_subprocess_exec(*words, stderr=subprocess.PIPE)
        assert process.stderr is not None
        ending = Ending(process.stderr)
        try:
            return await ending.reason(await process.wait())
        finally:
            ending.close()

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise ValueError('secret')", "ValueError"),
        ("import no_such_module", "ModuleNotFoundError"),
        (f"import sys; sys.exit('{OURS}KeyError in feed.py, line 7')", "KeyError in feed.py, line 7"),
        ("import sys; sys.exit('secret')", "it ended with exit code 1"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by SIGKILL, as the kernel does where memory is short"),
        ("import os; os.abort()", "it was ended by SIGABRT"),
        (f"import sys; sys.stderr.write('secret\\n' * {KEPT}); raise MemoryError", "MemoryError"),
    ],
)
def test_it_is_one_line_without_secrets(code: str, told: str) -> None:
    assert reason(code) == told
