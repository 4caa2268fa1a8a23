"""The program that ``kproxy run`` becomes (run.py): it checks the configuration, then is the supervisor.

Its argument is a memfd with the options as JSON (kproxy.config.reading.Options). Click is not imported here.
"""

import os
import signal
import sys

from kproxy.cli import end_start_up
from kproxy.cli.endings import INTERRUPTED, show_error
from kproxy.config.reading import Options, config_from_options
from kproxy.config.structs import Config
from kproxy.errors import KproxyError
from kproxy.proxy.supervisor import checking
from kproxy.proxy.supervisor.processes import inherited_options
from kproxy.proxy.supervisor.start import main as supervise


def main() -> int:
    """Run with the inherited options. Return the exit code."""
    end_start_up()
    try:
        options = inherited_options(int(sys.argv[1]))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return supervise(options, config=_checked(options))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (KproxyError, OSError) as error:
        return show_error(error)


def _checked(options: Options) -> Config:
    """Return the configuration, checked; a file is read in a process of its own, as its filters and YAML take memory.

    Raises ConfigError with every mistake, UsageError if the other process ends without an answer.
    """
    if options.file is None and not options.faults:  # no filter can be loaded
        return config_from_options(options)
    answering = checking.answer_file()
    process = os.fork()
    if process == 0:
        checking.answer(options, answering)
    return checking.checked(answering, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
