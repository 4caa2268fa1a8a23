"""All checks, in the order in which a person would look: the running kproxy, this machine, then each cluster."""

import asyncio
from collections.abc import AsyncIterator

from kproxy.config import Config
from kproxy.config.redaction import redacted
from kproxy.doctor.cluster import examine_cluster
from kproxy.doctor.findings import Finding, note
from kproxy.doctor.machine import examine_machine
from kproxy.doctor.running import Running, examine_running, look_for
from kproxy.doctor.through import examine_through
from kproxy.filters.loading import BUILT_IN
from kproxy.login.client_settings import Credentials


async def examine(
    config: Config, patience: float, *, whole: bool = True, login: Credentials | None = None
) -> AsyncIterator[Finding]:
    """Examine what *config* would run, or does run already where its admin server answers.

    *patience*: seconds to wait for one answer; a whole broker has twice as much. *whole*: *config* is all of the
    configuration, so that one that runs has to be the same; False where a person named a few options of it. *login*: used where
    brokers want one.
    """
    running = await asyncio.to_thread(look_for, config.admin, patience) if config.admin else None
    if running:
        for finding in examine_running(running, redacted(config, BUILT_IN) if whole else None):
            yield finding
    else:
        where = f"at {config.admin}" if config.admin else "here (no admin address)"
        yield note("kproxy", f"none runs {where}; its configuration is examined as if it would start now")
    for finding in examine_machine(config, running=running is not None):
        yield finding
    for cluster in config.clusters:
        async for finding in examine_cluster(config, cluster, patience, login):
            yield finding
    if running:
        async for finding in examine_through(config, patience, login):
            yield finding


async def examine_admin(running: Running) -> AsyncIterator[Finding]:
    """Examine a running kproxy by its admin pages alone."""
    for finding in examine_running(running, None):
        yield finding
