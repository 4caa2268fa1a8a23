"""A real `kproxy run` and what is said of it: alive, another configuration than the file, clients' way, clock."""

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kproxy.config import Config
from kproxy.config.reading import read_config
from kproxy.doctor.findings import State
from kproxy.doctor.running import Running, examine_running, look_for
from tests.support.doctored import PATIENCE_S, broker, findings, problems
from tests.support.links import run
from tests.support.ports import free_ports


@contextmanager
def kproxy_run(folder: Path, bootstrap: str, before: Sequence[str] = (), **parts: Any) -> Iterator[Path]:
    """A kproxy that starts, under the program *before*; gives its configuration. *parts*: of its cluster."""
    first = free_ports(12)
    file = folder / "kproxy.yaml"
    cluster = {"listen": f"127.0.0.1:{first}", "bootstrap": [bootstrap], "addresses": {"node_ids": [0]}, **parts}
    file.write_text(json.dumps({"admin": f"127.0.0.1:{first + 10}", "clusters": [cluster]}), encoding="utf-8")
    words = [*before, sys.executable, "-c", "from kproxy.cli import main; main()", "run", "-c", str(file)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield file
        finally:
            process.terminate()
            process.stderr.read()


async def until_ready(config: Config) -> None:
    """Until its admin server answers, its analyzer runs and it has reached the broker, which lives in this process."""
    assert config.admin is not None
    while True:
        running = await asyncio.to_thread(look_for, config.admin, PATIENCE_S)
        if running is not None and running.ready["ready"] and running.values.get("kproxy_analysis_up"):
            return
        await asyncio.sleep(0.05)


def test_a_running_kproxy(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker() as port:
            with kproxy_run(tmp_path, f"127.0.0.1:{port}") as file:
                config = read_config(str(file))
                await until_ready(config)
                assert problems(await findings(config)) == []
                found = {one.subject: one for one in await findings(config)}
                listen = config.clusters[0].listen
                assert "all 1 brokers answer" in found[f"default: clients at {listen}"].what
                assert found[f"kproxy at {config.admin}: analyzer"].state is State.GOOD
                assert "ports" not in found  # they are its own
                other = json.loads(file.read_text(encoding="utf-8"))
                other["clusters"][0]["bootstrap"].append("another.test:9092")
                changed = tmp_path / "other.yaml"
                changed.write_text(json.dumps(other), encoding="utf-8")
                said = problems(await findings(read_config(str(changed)), 5.0))
                assert any("another configuration than the file: clusters[0].bootstrap differ" in one for one in said)

    run(work)


def test_the_limit_of_files_is_that_of_the_proxy(tmp_path: Path) -> None:
    """Not that of this process, which is higher; and its clock is compared."""

    async def work() -> None:
        async with broker() as port:
            limited = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh"]
            with kproxy_run(tmp_path, f"127.0.0.1:{port}", limited) as file:
                config = read_config(str(file))
                await until_ready(config)
                [problem] = problems(await findings(config))
                assert problem.startswith("open files: the limit of 256 is enough for about 96 clients")
                running = look_for(str(config.admin), PATIENCE_S)
                assert running is not None and running.clock_ahead_s is not None
                assert problem in problems(list(examine_running(running, None)))  # by its pages alone too

    run(work)


def test_nobody_at_the_admin_address() -> None:
    assert look_for(f"127.0.0.1:{free_ports(1)}", PATIENCE_S) is None


def made(**changes: Any) -> Running:
    values = {"kproxy_analysis_up": 1.0, "kproxy_requests_total": 100.0, "kproxy_open_files_limit": math.inf}
    config = {"analysis": {"enabled": True}, "limits": {"connections": 10_000}}
    plain = Running("127.0.0.1:1", {"ready": True}, config, values, "", 0.0)
    return plain._replace(**changes)


def states(running: Running) -> set[State]:
    return {one.state for one in examine_running(running, None)}


def test_what_the_pages_say() -> None:
    assert states(made()) == {State.GOOD}
    assert State.PROBLEM in states(made(ready={"ready": False, "reason": "no broker was reached"}))
    assert State.PROBLEM in states(made(clock_ahead_s=86_400.0))
    assert State.PROBLEM in states(made(values={"kproxy_analysis_up": 0.0}))
    assert State.WARNING in states(made(version="0.0.1"))
    assert State.WARNING in states(made(values={"kproxy_analysis_up": 1.0, "kproxy_exchanges_left_out_total": 5.0}))
