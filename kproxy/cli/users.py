"""``kproxy users``: who may log in to kproxy. It writes the users file and shows its names, never a password or a hash."""

import sys
from pathlib import Path

import click

from kproxy.authentication.scram import LEAST_ITERATIONS, MOST_ITERATIONS
from kproxy.authentication.users import (
    FIELDS,
    LONGEST_NAME,
    User,
    Users,
    UsersFile,
    new_users_file,
    read_users_file,
    set_password,
    write_users_file,
)
from kproxy.cli.options import form_option, json_page
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.pipeline.sink import Sink

LONGEST_PASSWORD = 1_024  # bytes: a token of PLAIN has 4,096


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--set", "name", metavar="NAME", help="Add this user, or change the password; it is read from standard input."
)
@click.option("--remove", metavar="NAME", help="Remove this user.")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(FIELDS)),
    help="With --set: how the user may log in; may be given several times. [default: SCRAM-SHA-256, SCRAM-SHA-512]",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="With --set: a group of the user; may be given several times.",
)
@click.option(
    "--iterations",
    type=click.IntRange(LEAST_ITERATIONS, MOST_ITERATIONS),
    default=LEAST_ITERATIONS,
    show_default=True,
    help="With --set: how slow a SCRAM password is to guess, and a login to make for the client.",
)
@form_option()
def users(
    file: Path,
    name: str | None,
    remove: str | None,
    mechanisms: tuple[str, ...],
    groups: tuple[str, ...],
    iterations: int,
    form: str,
) -> None:
    """List who may log in to kproxy, or change it.

    \b
    kproxy users users.json
    kproxy users users.json --set alice
    kproxy users users.json --set batch --mechanism PLAIN < password.txt
    kproxy users users.json --remove alice

    FILE is authentication.users of a virtual cluster; it is made if it does not exist. It has no passwords: for SCRAM the
    verifiers of RFC 5802, as Kafka's brokers keep them, for PLAIN a slow hash. A running kproxy takes the changed file without a
    restart; who is logged in stays so until the session ends. kproxy help authentication has the configuration.
    """
    if name is not None and remove is not None:
        raise click.UsageError("--set and --remove exclude each other")
    if name is None and (mechanisms or groups):
        raise click.UsageError("--mechanism and --group belong to --set")
    if name is None and remove is None:
        _list(file, form)
        return
    known = read_users_file(file) if file.exists() or name is None else new_users_file()
    done = "removed" if name is None else "changed" if name in known.users else "added"
    if name is not None:
        _set(known, name, mechanisms or ("SCRAM-SHA-256", "SCRAM-SHA-512"), groups, iterations)
    elif known.users.pop(str(remove), None) is None:
        raise UsageError(f"{file}: there is no user {str(remove)!r}")
    write_users_file(file, known)
    with Sink(None, live=False) as sink:
        _say(sink, f"{done} the user {remove if name is None else name}")


def _list(file: Path, form: str) -> None:
    """Print names, mechanisms and groups."""
    Users(file)  # whether kproxy run would take it
    known = read_users_file(file).users
    with Sink(None, live=False) as sink:
        if form == "json":
            rows = [{"name": name, "mechanisms": one.mechanisms, "groups": one.groups} for name, one in known.items()]
            sink.write(json_page(rows))
            return
        for name, one in sorted(known.items()):
            groups = f"  in {', '.join(one.groups)}" if one.groups else ""
            _say(sink, f"{name}  {', '.join(one.mechanisms) or 'no way to log in'}{groups}")


def _say(sink: Sink, line: str) -> None:
    sink.write(f"{printable(line, LONGEST_NAME)}\n".encode("utf-8", "backslashreplace"))


def _set(known: UsersFile, name: str, mechanisms: tuple[str, ...], groups: tuple[str, ...], iterations: int) -> None:
    """Add a user, or change its password and, if any are given, its groups."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise UsageError(f"a name has 1 to {LONGEST_NAME} characters that can be printed")
    password = _password(name)
    user = known.users.setdefault(name, User())
    if groups:
        user.groups = sorted(set(groups))
    set_password(user, mechanisms, password, iterations)


def _password(name: str) -> str:
    """Read the password: from a person twice, without an echo; else the first line of standard input."""
    if sys.stdin.isatty():
        password: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline(LONGEST_PASSWORD + 2).removesuffix("\n").removesuffix("\r")
    if not password:
        raise UsageError(f"no password on standard input: its first line is the password of {name}")
    if len(password.encode("utf-8", "surrogateescape")) > LONGEST_PASSWORD or "\0" in password:
        raise UsageError(f"a password has 1 to {LONGEST_PASSWORD} bytes, none of them NUL")
    return password
