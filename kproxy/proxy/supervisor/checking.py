"""Reads and checks a configuration in a process of its own, so that its filters and YAML are not loaded into the supervisor.

The process is a fork, at the start as at a reload. A key service is asked too: a configuration with keys
that it refuses is not used.
"""

import asyncio
import os
import sys
import traceback
from typing import NoReturn

from msgspec import Struct
from msgspec.json import Decoder, encode

from kproxy.config.reading import Options, config_from_options
from kproxy.config.structs import Config, FilterUse
from kproxy.errors import ConfigError, KproxyError, Mistake, UsageError
from kproxy.proxy.child_process import leave_supervisor
from kproxy.proxy.logs import log, start_logging
from kproxy.proxy.supervisor.processes import forked
from kproxy.schemas.settings import SchemaSources

PATIENCE_S = 60.0


class Answer(Struct):
    """A configuration, or what is wrong with it, from one process to another."""

    config: Config | None = None
    sentence: str = ""
    mistakes: list[Mistake] | None = None
    source: str = ""


_decoder = Decoder(Answer)


def answer_file() -> int:
    """Return a file in memory for the answer of a check; other processes inherit it."""
    return os.memfd_create("kproxy answer", 0)


def answer(options: Options, file: int, present: Config | None = None) -> NoReturn:
    """In a process for this alone: check the configuration, write it or what is wrong with it, and end.

    *present*: the configuration in use; filters and schemas that are the same there are not checked again.
    """
    code = 1
    try:
        away: list[tuple[str, str]] = []
        config = config_from_options(
            options,
            filters=lambda config: present is None or _filters_of(config) != _filters_of(present),
            warn=lambda event, reason: away.append((event, reason)),
        )
        start_logging(config.logs)
        for event, reason in away:
            log("warning", event, reason=reason)
        os.write(file, encode(Answer(config)))
        code = 0
    except KproxyError as error:
        mistakes, source = (list(error.mistakes), error.source) if isinstance(error, ConfigError) else (None, "")
        os.write(file, encode(Answer(None, str(error), mistakes, source)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def checked(file: int, code: int) -> Config:
    """Close the file of an answer; return the configuration in it.

    Raises ConfigError with every mistake in it, UsageError if there is no answer. *code*: the exit code of the process.
    """
    with os.fdopen(file, "rb") as written:
        written.seek(0)
        content = written.read()
    if code or not content:
        raise UsageError(
            f"the configuration could not be checked: loading its filters ended the process (exit code {code})"
        )
    said = _decoder.decode(content)
    if said.config is not None:
        return said.config
    raise UsageError(said.sentence) if said.mistakes is None else ConfigError(said.mistakes, said.source)


def _filters_of(config: Config) -> tuple[list[list[FilterUse]], SchemaSources]:
    """Return what asks others: schemas, and the filters of each cluster but faults, which tests change often."""
    filters = [[use for use in cluster.filters if use.use != "faults"] for cluster in config.clusters]
    return filters, config.schemas


def read_first(options: Options) -> Config:
    """Read and check the configuration before anything else is started. Raises ConfigError, UsageError."""
    if options.file is None and not options.faults:  # no filter can be loaded
        return config_from_options(options)
    file = answer_file()
    process = os.fork()
    if process == 0:
        answer(options, file)
    return checked(file, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


async def read_again(options: Options, present: Config | None) -> Config:
    """Read and check the configuration while the event loop goes on; *present* as in ``answer``.

    Raises ConfigError, UsageError, OSError.
    """
    file = answer_file()
    supervisor = os.getpid()

    def begin() -> NoReturn:
        leave_supervisor([file], supervisor)
        answer(options, file, present)

    process = forked(begin)
    try:
        code = await asyncio.wait_for(asyncio.shield(process.ended), PATIENCE_S)
    except TimeoutError:
        raise UsageError(f"the configuration could not be checked within {PATIENCE_S:g} s") from None
    finally:
        process.kill()
    return checked(file, code)
