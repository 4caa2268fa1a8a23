"""``kproxy doctor``: what is wrong with a set-up, and what to do about it."""

import asyncio
import json
import shutil
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import click

from kproxy.cli.options import bootstrap_option, form_option
from kproxy.config.reading import Options, config_from_options
from kproxy.config.structs import Config
from kproxy.doctor.examine import examine, examine_admin
from kproxy.doctor.findings import Finding, State, count, problem
from kproxy.doctor.machine import look_for
from kproxy.errors import ConfigError, UsageError
from kproxy.login.client_settings import read_credentials
from kproxy.output.escaping import printable
from kproxy.output.text.styles import is_terminal
from kproxy.output.times import counted

FOUND = 4  # exit status, see endings.py
MARKS = {State.GOOD: "ok", State.NOTE: "note", State.WARNING: "warning", State.PROBLEM: "PROBLEM"}
COLOURS = {State.GOOD: "green", State.NOTE: "cyan", State.WARNING: "yellow", State.PROBLEM: "red"}
LONGEST = 400  # characters of a part of a line; names come from other machines


@click.command()
@click.option("-c", "--config", metavar="FILE", help="The configuration of kproxy run.")
@click.option("--listen", metavar="HOST:PORT", help="As in kproxy run, in place of -c.")
@bootstrap_option("As in kproxy run, in place of -c.")
@click.option("--admin", metavar="HOST:PORT", help="Where kproxy runs; alone: only what its pages say.")
@click.option(
    "--command-config",
    metavar="FILE",
    type=Path,
    help="A client's properties (security.protocol, sasl.mechanism, sasl.jaas.config): log in with them.",
)
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0.1, 300), default=5.0, help="For each answer (5).")
@form_option("json: one object a line.")
def doctor(
    config: str | None,
    listen: str | None,
    bootstrap: list[str],
    admin: str | None,
    command_config: Path | None,
    timeout: float,
    form: str,
) -> int:
    """Say what is wrong with a set-up, and what to do.

    \b
    kproxy doctor -c kproxy.yaml
    kproxy doctor --listen :19092 --bootstrap kafka:9092
    kproxy doctor -c kproxy.yaml --command-config client.properties
    kproxy doctor --admin localhost:9644

    Looks at brokers, the addresses that they advertise, TLS, certificates, logins, clocks, ports, limits, space, the keys and
    topics of the filter encrypt, and at kproxy itself where it runs already. Nothing is changed. Run it where kproxy runs, as
    the same user.

    Brokers that require a login tell their addresses and their clock only after it: --command-config takes the properties file
    that Kafka's own tools take (PLAIN and SCRAM). TLS is set by the configuration; with SASL_SSL in the properties, the login is
    only sent over TLS.

    Exit status: 0 without problems (warnings are none), 4 with a problem, 2 for wrong usage.
    """
    if admin is not None and config is None and listen is None and not bootstrap:
        running = look_for(admin, timeout)
        if running is None:
            raise UsageError(
                f"no kproxy answers at {admin}: name its admin address, or give -c FILE to examine a configuration"
            )
        return asyncio.run(_show(examine_admin(running), form))
    login = None if command_config is None else read_credentials(command_config)
    options = Options(file=config, listen=listen, bootstrap=bootstrap, admin=admin)
    try:
        configuration: Config = config_from_options(options)
    except ConfigError as error:
        if not any(mistake.line for mistake in error.mistakes):  # of options, or the file cannot be read
            raise
        advice, found = "correct it; kproxy check --schema has every setting", list(error.lines())

        async def mistakes() -> AsyncIterator[Finding]:
            for line in found:
                yield problem("configuration", line, advice)

        return asyncio.run(_show(mistakes(), form))
    return asyncio.run(_show(examine(configuration, timeout, is_complete=config is not None, login=login), form))


async def _show(findings: AsyncIterator[Finding], form: str) -> int:
    """Print each finding as it comes; the exit status."""
    seen = []
    async for finding in findings:
        seen.append(finding)
        if form == "json":
            print(json.dumps(finding._asdict() | {"advice": finding.advice or None}), flush=True)
        else:
            _print_lines(finding)
    problems, warnings = count(seen, State.PROBLEM), count(seen, State.WARNING)
    if form == "text":
        print(f"\n{_number(problems, 'problem')}, {_number(warnings, 'warning')}")
    return FOUND if problems else 0


def _print_lines(finding: Finding) -> None:
    colour = COLOURS[finding.state] if is_terminal(sys.stdout) else None
    mark = click.style(f"{MARKS[finding.state]:8}", fg=colour, bold=finding.state is State.PROBLEM)
    first, *more = _wrapped(f"{printable(finding.subject, LONGEST)}: {printable(finding.what, LONGEST)}", "")
    click.echo(f"{mark} {first.lstrip()}")
    for line in [*more, *(_wrapped(printable(finding.advice, LONGEST), "→ ") if finding.advice else [])]:
        click.echo(line)


def _wrapped(text: str, sign: str) -> list[str]:
    """Return the lines to print after the column of marks, wrapped to the width of a terminal."""
    margin = " " * 9
    if not is_terminal(sys.stdout):
        return [f"{margin}{sign}{text}"]
    width = max(shutil.get_terminal_size((100, 24)).columns, 40)
    indent = margin + " " * len(sign)
    return textwrap.wrap(
        text, width, initial_indent=f"{margin}{sign}", subsequent_indent=indent, break_long_words=False
    )


def _number(count: int, what: str) -> str:
    return counted(count, what) if count else f"no {what}s"
