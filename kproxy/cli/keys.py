"""``kproxy keys``: the keys that data keys are wrapped by. It shows names, versions and times, never a key."""

import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict

import click

from kproxy.cli.options import form_option, json_page
from kproxy.config.reading import read_key_settings
from kproxy.encryption.services import KeyFacts, KeyManager, KeyService, KeyServiceError, key_service, unbounded
from kproxy.encryption.services.contract import MOST_WRAPPED, try_key
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.times import counted
from kproxy.pipeline.sink import Sink
from kproxy.protocol.values import render_time_ms

STILL_IN_USE = (
    "a kproxy that runs goes on reading and writing with the data keys that it has, for up to data_key_age (1h by default); "
    "restart it to end that"
)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--make", metavar="KEY", help="Make this key.")
@click.option("--rotate", metavar="KEY", help="Add a version to this key: new data keys are wrapped by it.")
@click.option("--check", metavar="KEY", help="Have a data key made and unwrapped by this key, as for records.")
@click.option(
    "--record-keys",
    metavar="KEY",
    help="Make a data key for record keys, wrapped by this key; print what a rule of encrypt takes.",
)
@click.option(
    "--rewrap", metavar="KEY", help="Wrap data keys by the newest version; they are lines in base 64 on standard input."
)
@click.option("--seal-with", metavar="FILE", help="Seal the key set anew, as this file of settings says.")
@click.option("--destroy", metavar="KEY", help="Destroy this key: its records can never be read again.")
@click.option(
    "--before", metavar="VERSION", type=click.IntRange(2), help="With --destroy: only the versions before this one."
)
@click.option("--yes", is_flag=True, help="With --destroy: do not ask whether it is meant.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@form_option()
def keys(file: str, before: int | None, dry_run: bool, yes: bool, form: str, **actions: str | None) -> None:
    """List the keys that records are encrypted by, or change them.

    \b
    kproxy keys keys.yaml
    kproxy keys keys.yaml --make orders
    kproxy keys keys.yaml --rotate orders --dry-run
    kproxy keys keys.yaml --check orders
    kproxy keys keys.yaml --record-keys orders

    FILE names the key service: that of the option --keys, and of keys in the filter encrypt. It has no key. A rotated key needs
    no rewriting: its earlier versions go on unwrapping. kproxy help encryption has the options of each key service.

    \b
    use: file                  # a sealed file; or vault, aws_kms
    with:
      path: /etc/kproxy/keys.sealed
      passphrase: env:KPROXY_KEYS_PASSPHRASE
    """
    chosen = [(action, value) for action, value in actions.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(_option(action) for action, _ in chosen)} exclude each other")
    if before is not None and actions["destroy"] is None:
        raise click.UsageError("--before belongs to --destroy")
    if yes and actions["destroy"] is None:
        raise click.UsageError("--yes belongs to --destroy")
    settings = read_key_settings(file)
    with Sink(None, live=False) as sink:
        for action, act in (("check", _check), ("record_keys", _record_keys)):
            if (key_name := actions[action]) is not None:
                with closing(unbounded(settings) if dry_run else key_service(settings)) as service:
                    _say(sink, act(service, key_name, dry_run))
                return
        with closing(unbounded(settings)) as managed:
            if not isinstance(managed, KeyManager):
                able = "--check and --record-keys are all that it can do"
                raise UsageError(f"the keys of {settings.use} are not managed by kproxy; {able}")
            if not chosen:
                _list(sink, managed.list_keys(), form)
                return
            ((action, value),) = chosen
            if action == "destroy" and not (yes or dry_run):
                _confirm(managed, value, before)
            for line in _ACTIONS[action](managed, value, before, dry_run):
                _say(sink, line)


def _list(sink: Sink, known: list[KeyFacts], form: str) -> None:
    if form == "json":
        sink.write(json_page([asdict(one) for one in known]))
        return
    if not known:
        _say(sink, "the key service has no keys: --make KEY makes the first")
    for one in known:
        _say(sink, f"{one.name}  {_described(one)}")


def _described(facts: KeyFacts) -> str:
    destroyed = "" if facts.destroyed_at is None else f"destroyed {render_time_ms(facts.destroyed_at)}"
    if facts.oldest is None:
        return destroyed or "destroyed"
    newest = f"version {facts.versions}" + (
        "" if facts.rotated_at is None else f" since {render_time_ms(facts.rotated_at)}"
    )
    earlier = f", unwraps from version {facts.oldest} on" if facts.versions > 1 else ""
    return newest + earlier + (f", {destroyed}" if destroyed else "")


def _check(service: KeyService, key_name: str, dry_run: bool) -> str:
    if dry_run:
        return f"would have a data key made by {_described_key(service, key_name)}, and unwrapped"
    made = try_key(service, key_name)
    return f"{key_name}: a data key was made, wrapped in {len(made.wrapped)} bytes, and unwrapped"


def _record_keys(service: KeyService, key_name: str, dry_run: bool) -> str:
    if dry_run:
        return f"would have a data key for record keys made by {_described_key(service, key_name)}"
    wrapped = b64encode(service.new_data_key(key_name).wrapped).decode()
    return f"record_keys: {json.dumps({'key': key_name, 'wrapped': wrapped}, ensure_ascii=False)}"


def _described_key(service: KeyService, key_name: str) -> str:
    """Return the name of a key, and what may be shown of it. Raises UsageError if it has been destroyed."""
    if not isinstance(service, KeyManager):
        return key_name
    facts = service.describe_key(key_name)
    if facts.oldest is None:
        raise UsageError(f"the key {key_name}: {_described(facts)}")
    return f"{key_name} ({_described(facts)})"


def _make(managed: KeyManager, key_name: str, before: int | None, dry_run: bool) -> list[str]:
    managed.make(key_name, dry_run=dry_run)
    return [f"{'would make' if dry_run else 'made'} the key {key_name}"]


def _rotate(managed: KeyManager, key_name: str, before: int | None, dry_run: bool) -> list[str]:
    managed.rotate(key_name, dry_run=dry_run)
    return [f"{'would add' if dry_run else 'added'} a version to the key {key_name}"]


def _destroy(managed: KeyManager, key_name: str, before: int | None, dry_run: bool) -> list[str]:
    managed.destroy(key_name, before, dry_run=dry_run)
    what = f"{'would destroy' if dry_run else 'destroyed'} {_destroyed(key_name, before)}"
    return [f"{what}: records whose data keys it wrapped cannot be read", STILL_IN_USE]


def _destroyed(key_name: str, before: int | None) -> str:
    return f"the key {key_name}" if before is None else f"the versions of the key {key_name} before {before}"


def _confirm(managed: KeyManager, key_name: str, before: int | None) -> None:
    """Ask for confirmation. Raises UsageError if the answer is no, or if standard input is not a terminal."""
    if not sys.stdin.isatty():
        raise UsageError("--destroy asks on a terminal whether it is meant; elsewhere give --yes")
    managed.destroy(key_name, before, dry_run=True)  # before the question, say that there is no such key
    what = f"destroy {_destroyed(key_name, before)}? Records whose data keys it wrapped can never be read again"
    if not click.confirm(printable(what, MOST_WRAPPED), err=True):
        raise UsageError("nothing was destroyed")


def _rewrap(managed: KeyManager, key_name: str, before: int | None, dry_run: bool) -> list[str]:
    """Return the data keys of standard input as the newest version wraps them; each line is read before one is written."""
    rewrapped = []
    for number, line in enumerate(sys.stdin, 1):
        try:
            wrapped = b64decode(line.strip()[: MOST_WRAPPED * 2], validate=True)
        except ValueError:
            raise UsageError(f"line {number} of standard input is not base 64") from None
        try:
            rewrapped.append(b64encode(managed.rewrap(key_name, wrapped)).decode())
        except KeyServiceError as error:
            raise type(error)(f"line {number} of standard input: {error}") from None
    return [f"would wrap {len(rewrapped)} data keys by the newest version of {key_name}"] if dry_run else rewrapped


def _seal_with(managed: KeyManager, file: str, before: int | None, dry_run: bool) -> list[str]:
    settings = read_key_settings(file)
    options = settings.options()
    if not isinstance(managed, KeySet) or not isinstance(options, KeySetOptions):
        raise UsageError("--seal-with is for key sets in files (use: file)")
    count = managed.seal_with(options, dry_run=dry_run)
    return [f"{'would seal' if dry_run else 'sealed'} {counted(count, 'key')} in {options.path}, as {file} says"]


_ACTIONS: dict[str, Callable[[KeyManager, str, int | None, bool], list[str]]] = {
    "make": _make,
    "rotate": _rotate,
    "rewrap": _rewrap,
    "seal_with": _seal_with,
    "destroy": _destroy,
}


def _option(action: str) -> str:
    return f"--{action.replace('_', '-')}"


def _say(sink: Sink, line: str) -> None:
    sink.write(f"{printable(line, MOST_WRAPPED * 2)}\n".encode("utf-8", "backslashreplace"))
