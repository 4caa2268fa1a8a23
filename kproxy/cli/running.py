"""The program that ``kproxy run`` becomes (run.py): it checks the configuration, then is the supervisor.

Its argument is a memfd with the options as JSON (kproxy.config.reading.Options). Click is not imported here.
"""

import os
import signal
import sys
import traceback
from typing import NoReturn

from msgspec import Struct
from msgspec.msgpack import Decoder, encode

from kproxy.cli import end_start_up
from kproxy.cli.endings import INTERRUPTED, show_error
from kproxy.config.reading import Options, config_from_options
from kproxy.errors import ConfigError, KproxyError, Mistake, UsageError
from kproxy.proxy.logs import log, start_logging
from kproxy.proxy.supervisor.processes import inherited_options
from kproxy.proxy.supervisor.start import main as supervise


def main() -> int:
    """Run with the inherited options. Return the exit code."""
    end_start_up()
    try:
        options = inherited_options(int(sys.argv[1]))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        _check(options)
        return supervise(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (KproxyError, OSError) as error:
        return show_error(error)


def _check(options: Options) -> None:
    """Check the configuration; with filters in a process of its own, so that only workers have them in memory.

    Raises ConfigError with every mistake, UsageError if the other process ends without an answer.
    """
    if options.file is None and not options.faults:  # no filter can be loaded
        config_from_options(options)
        return
    answer, answering = os.pipe()
    checking = os.fork()
    if checking == 0:
        _answer(options, answering)
    os.close(answering)
    with os.fdopen(answer, "rb") as pipe:
        refused = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(checking, 0)[1])
    if refused:
        raise _decoder.decode(refused).error()
    if code:
        raise UsageError(
            f"the configuration could not be checked: loading its filters ended the process (exit code {code})"
        )


class Refusal(Struct):
    """What is wrong with a configuration, from one process to another."""

    sentence: str
    mistakes: list[Mistake] | None = None
    source: str = ""

    def error(self) -> UsageError:
        """The exception that says so."""
        return UsageError(self.sentence) if self.mistakes is None else ConfigError(self.mistakes, self.source)


_decoder = Decoder(Refusal)


def _answer(options: Options, answering: int) -> NoReturn:
    """In a forked process: check the configuration, say what is wrong with it, and end without going back to the caller."""
    code = 1
    try:
        away: list[tuple[str, str]] = []
        config = config_from_options(options, warn=lambda event, reason: away.append((event, reason)))
        start_logging(config.logs)
        for event, reason in away:
            log("warning", event, reason=reason)
        code = 0
    except KproxyError as error:
        mistakes, source = (list(error.mistakes), error.source) if isinstance(error, ConfigError) else (None, "")
        with os.fdopen(answering, "wb") as pipe:
            pipe.write(encode(Refusal(str(error), mistakes, source)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
