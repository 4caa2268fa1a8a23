"""How a run starts: from options to the supervisor. What is imported before the first child is forked, all processes share."""

import asyncio
import gc
import resource
import sys
from importlib import import_module

from kproxy.config.reading import Options
from kproxy.config.structs import NEARLY_ALL, Config
from kproxy.errors import KproxyError
from kproxy.proxy.child_process import set_process_title
from kproxy.proxy.logs import log, start_logging
from kproxy.proxy.messages import ToSupervisor, decoder
from kproxy.proxy.supervisor.checking import read_first
from kproxy.proxy.supervisor.fleet import OURS, Modules
from kproxy.proxy.supervisor.process import Supervisor
from kproxy.proxy.supervisor.processes import inherited_options, supervisor_title

USAGE = 2
COLLECT_AFTER = (50_000, 20, 20)  # nearly no objects are in cycles
OTHER_FILES = 200  # file descriptors of a worker that are not for clients: listeners, memory, the channel


def allow_files(config: Config) -> None:
    """Raise the limit of open files as far as needed and allowed. Workers inherit it; a client takes two files."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * config.limits.connections + OTHER_FILES
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    if now != resource.RLIM_INFINITY and now < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    clients = max(allowed - OTHER_FILES, 0) // 2
    if clients < NEARLY_ALL * config.limits.connections:
        reason = f"the limit of open files (ulimit -n) is {most}, which is enough for about {clients} clients"
        log("warning", "limits.connections will not be reached", reason=reason)


def _prepare(module: str) -> None:
    """Import the module of a child, and do what each of its processes would do again: a page that one writes to is not shared."""
    getattr(import_module(module), "prepare", lambda: None)()


def main(options: Options, modules: Modules = OURS) -> int:
    """Run with *options* until asked to stop. Return the exit code. Raises ConfigError, UsageError."""
    gc.set_threshold(*COLLECT_AFTER)
    set_process_title(supervisor_title(options), "kproxy")
    config = read_first(options)
    start_logging(config.logs)
    allow_files(config)
    decoder(ToSupervisor)
    _prepare(modules.worker)
    if config.analysis.enabled:
        _prepare(modules.analyzer)

    async def run() -> int:
        return await Supervisor(options, config, modules).run()

    return asyncio.run(run())


if __name__ == "__main__":
    try:
        sys.exit(main(inherited_options(int(sys.argv[1]))))
    except KproxyError as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
