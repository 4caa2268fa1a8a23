"""The program that ``kproxy run`` becomes (run.py): it checks the configuration, then is the supervisor.

Its argument is a memfd with the options as JSON (kproxy.config.reading.Options). Click is not imported here.
"""

import signal
import sys

from kproxy.cli import end_start_up
from kproxy.cli.endings import INTERRUPTED, show_error
from kproxy.errors import KproxyError
from kproxy.proxy.supervisor.processes import inherited_options
from kproxy.proxy.supervisor.start import main as supervise


def main() -> int:
    """Run with the inherited options. Return the exit code."""
    end_start_up()
    try:
        options = inherited_options(int(sys.argv[1]))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return supervise(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (KproxyError, OSError) as error:
        return show_error(error)
