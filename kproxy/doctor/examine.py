"""All checks, in the order in which a person would look: the running kproxy, this machine, then each cluster."""

import asyncio
from collections.abc import AsyncIterator

from kproxy.config import Config
from kproxy.config.showing import redacted
from kproxy.doctor.cluster import examine_cluster
from kproxy.doctor.findings import Finding, note
from kproxy.doctor.machine import examine_machine
from kproxy.doctor.running import Running, examine_running, look_for
from kproxy.doctor.through import examine_through
from kproxy.filters.loading import BUILT_IN
from kproxy.login.client_settings import Credentials


async def examine(
    config: Config, patience: float, *, is_complete: bool = True, login: Credentials | None = None
) -> AsyncIterator[Finding]:
    """Examine what *config* would run, or what runs already if its admin server answers.

    Args:
        config: the configuration.
        patience: seconds to wait for one answer; all questions to one broker together have twice as much.
        is_complete: *config* is the whole configuration, and is compared with that of a running kproxy; False if a person
            gave only a few options.
        login: used where brokers require one.
    """
    running = await asyncio.to_thread(look_for, config.admin, patience) if config.admin else None
    if running:
        for finding in examine_running(running, redacted(config, BUILT_IN) if is_complete else None):
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
