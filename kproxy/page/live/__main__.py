"""``python -m kproxy.page.live``: the process of the live page.

Its modules take a second or more of CPU to import. A thread imports them that gets only the CPU that others leave, as traffic
comes first. If that takes longer than PATIENCE_S, the process starts anew and imports at its own low priority.
"""

import os
import sys
from importlib import import_module
from threading import Thread

from kproxy.proxy.scheduling import take_what_is_left

PATIENCE_S = 3.0
AT_ONCE = "--at-once"
HEAVY = ("kproxy.page.live.process", "duckdb", "pyarrow.parquet")


def main() -> None:
    """Import, and serve."""
    if AT_ONCE not in sys.argv:

        def import_all() -> None:
            take_what_is_left()
            for name in HEAVY:
                import_module(name)

        importing = Thread(target=import_all, daemon=True)
        importing.start()
        importing.join(PATIENCE_S)
        if importing.is_alive():
            os.execv(sys.executable, [sys.executable, "-P", "-m", "kproxy.page.live", AT_ONCE])  # nothing was read yet
    from kproxy.page.live.process import main as serve  # noqa: PLC0415 - see the module

    serve()


if __name__ == "__main__":
    main()
