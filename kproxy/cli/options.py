"""Options that several commands have, and what a shell completes for the options of all commands.

KEYLOG, SEPARATE, form_option, bootstrap_option   --keylog; --separate; --format text or json; --bootstrap
json_page           what --format json prints
schema_options      a decorator: gives a command --registry, --schemas, --schema and --keys (pop_schemas)
selection_options   a decorator: gives a command --where, and --api, --topic, --client and --group, short for conditions
pop_condition       takes their values out of the command's options, as one condition in CEL (condition_of)
source_path         the path of a source, where that is in a folder that may be entered
complete_...        what Click calls for completion (``shell_complete=`` of an option or argument)
"""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from kproxy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from kproxy.protocol.facts import Api
    from kproxy.schemas.settings import SchemaSources

Command = TypeVar("Command", bound=Callable[..., Any])
# Former names of APIs, and names that other projects use -> Kafka's present name, in lower case
FORMER_NAMES = {
    "offsets": "ListOffsets",
    "listoffset": "ListOffsets",
    "groupcoordinator": "FindCoordinator",
    "alterisr": "AlterPartition",
    "listclientmetricsresources": "ListConfigResources",
}
KEYLOG = click.option(
    "--keylog", metavar="FILE", type=Path, help="Session keys of TLS (NSS key log); see kproxy help captures."
)
SEPARATE = click.option(
    "--separate",
    is_flag=True,
    help="Read each file or folder as a capture of its own; otherwise all are one capture. See kproxy help captures.",
)
SCHEMA_OPTIONS = (
    click.option(
        "--registry",
        "registries",
        metavar="WORDS",
        multiple=True,
        help="With --records: a registry, 'URL [ca=FILE ...]'; see kproxy help schemas.",
    ),
    click.option(
        "--schemas",
        "schema_folders",
        metavar="DIR",
        multiple=True,
        type=Path,
        help="With --records: a folder of schemas.",
    ),
    click.option(
        "--schema",
        "chosen_schemas",
        metavar="TOPIC.PART=FILE",
        multiple=True,
        help="With --records: the schema of a topic, as in orders.value=order.avsc.",
    ),
    click.option(
        "--keys",
        "key_settings",
        metavar="FILE",
        help="With --records: the key service that decrypts values; see kproxy help encryption.",
    ),
)
SELECTION = ("apis", "topics", "clients", "groups", "where")  # the names of what selection_options gives
WORD = re.compile(r"\w*$")
GLOB = re.compile(r"[*?]")


def form_option(text: str = "text for people, json for programs.") -> Callable[[Command], Command]:
    """Return the option --format as a decorator. *text*: its help."""
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help=text
    )


def json_page(data: Any) -> bytes:
    """Return what --format json prints of *data*: one value, indented."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"


def bootstrap_option(text: str) -> Callable[[Command], Command]:
    """Return the option --bootstrap as a decorator; its value is a list of addresses. *text*: its help."""

    def split(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str]:
        return [part.strip() for part in (value or "").split(",") if part.strip()]

    return click.option("--bootstrap", metavar="HOST:PORT[,...]", callback=split, help=text)


# What a shell completes; each function imports what it needs, since most runs complete nothing


def complete_apis(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from kproxy.protocol.facts import facts  # noqa: PLC0415

    return _beginning(incomplete, [api.name for api in facts().apis.values()])


def complete_condition(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the last word of a condition to a field."""
    from kproxy.protocol.vocabulary import Scope, fields_in  # noqa: PLC0415

    word = WORD.search(incomplete)
    before = incomplete[: word.start() if word else 0]
    names = _beginning(incomplete[len(before) :], fields_in(Scope.LOG, Scope.OTHER_LINES))
    return [f"{before}{name}" for name in names]


def complete_filters(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of filters."""
    from kproxy.filters.loading import filter_names  # noqa: PLC0415

    return _beginning(incomplete, filter_names())


def complete_analyses(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete ids of kproxy's own analyses."""
    from kproxy.analyses import library  # noqa: PLC0415 - an extra

    return _beginning(incomplete, library.load(()))


def complete_faults(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of scenarios, and options of a fault."""
    from kproxy.filters.faults.options import SCENARIOS, Fault  # noqa: PLC0415

    before, space, word = incomplete.rpartition(" ")
    options = [f"{name}=" for name in Fault.__struct_fields__ if name != "scenario"]
    return [f"{before}{space}{name}" for name in _beginning(word, [*SCENARIOS, *options])]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]


OPTIONS = (
    click.option(
        "--api",
        "apis",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_apis,
        help="Only this API, by name or key: Fetch, 1.",
    ),
    click.option(
        "--topic",
        "topics",
        metavar="NAME",
        multiple=True,
        help="Only what names this topic, such as orders or orders-*.",
    ),
    click.option("--client", "clients", metavar="ID", multiple=True, help="Only this client, by client id or address."),
    click.option("--group", "groups", metavar="ID", multiple=True, help="Only what names this group."),
    click.option(
        "--where",
        metavar="CEL",
        shell_complete=complete_condition,
        help="Only what matches this condition; see kproxy help conditions.",
    ),
)


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command all *options*."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


selection_options = together(*OPTIONS)  # keyword arguments that condition_of takes
schema_options = together(*SCHEMA_OPTIONS)  # keyword arguments that pop_schemas takes


def pop_schemas(options: dict[str, Any], *, records: bool = True) -> "SchemaSources":
    """Remove the values of these options from the options of a command. Raises UsageError without *records*."""
    from kproxy.schemas.settings import SchemaSources  # noqa: PLC0415 - kproxy run has no such options

    names = {"registries": "registries", "schema_folders": "folders", "chosen_schemas": "topics"}
    schemas = {known_as: options.pop(name) for name, known_as in names.items()}
    path, keys = options.pop("key_settings"), None
    if path is not None:
        from kproxy.config.reading import read_key_settings  # noqa: PLC0415 - few calls have the option

        keys = read_key_settings(path)
    sources = SchemaSources.of_options(**schemas, keys=keys)
    if sources != SchemaSources() and not records:
        raise UsageError("--registry, --schemas, --schema and --keys are for records: add --records")
    return sources


def source_path(name: str) -> Path:
    """Return the path of a source. Raises UsageError if it lies in a folder that kproxy may not enter."""
    path = Path(name)
    try:
        path.exists()
    except PermissionError as error:
        raise UsageError(f"{path}: its folder cannot be entered: {error.strerror}") from None
    except OSError:
        pass  # what reads it says why, such as that a name is too long
    return path


def pop_condition(options: dict[str, Any]) -> str | None:
    """Remove the values of these options from the options of a command, and return their condition."""
    return condition_of(**{name: options.pop(name) for name in SELECTION})


def condition_of(
    *,
    apis: tuple[str, ...] = (),
    topics: tuple[str, ...] = (),
    clients: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    where: str | None = None,
) -> str | None:
    """Return the condition in CEL; None without any option. Values of one option are alternatives, options must all match.

    Raises UsageError for an API that does not exist.
    """
    names = [f"apiKey == {_api(name).key}" for name in apis]
    of_topics = [_matching("topics", topic) for topic in topics]
    of_clients = [condition for client in clients for condition in _client(client)]
    of_groups = [_matching("groups", group) for group in groups]
    parts = [" || ".join(part) for part in (names, of_topics, of_clients, of_groups) if part]
    if not parts:
        return where
    if where is not None:
        from kproxy.output.where import Where  # noqa: PLC0415 - brings CEL

        # Checked alone, so that a mistake has its place in --where, not in the combined condition
        parts.append(Where(where).expression)
    return parts[0] if len(parts) == 1 else " && ".join(f"({part})" for part in parts)


def find_api(name: str) -> "Api | None":
    """Return the API with this key, or this name in any case, present or former."""
    from kproxy.protocol.facts import facts  # noqa: PLC0415 - --version and --help do without

    apis = facts().apis
    if name.isdecimal() and len(name) < 6:
        return apis.get(int(name))
    name = FORMER_NAMES.get(name.lower(), name).lower()
    return next((api for api in apis.values() if api.name.lower() == name), None)


def _api(name: str) -> "Api":
    from kproxy.protocol.facts import facts  # noqa: PLC0415

    found = find_api(name)
    if found is None:
        hint = did_you_mean(name, [api.name for api in facts().apis.values()], "kproxy api lists them all")
        raise UsageError(f"--api: there is no API {name[:80]!r}; {hint}")
    return found


def _matching(names: str, wanted: str) -> str:
    """Return the condition that one of *names* is *wanted*, which may have * and ?."""
    if not GLOB.search(wanted):
        return f"{_text(wanted)} in {names}"
    return f"{names}.exists(one, one.matches({_pattern(wanted)}))"


def _client(wanted: str) -> list[str]:
    """Return conditions for a client: its id, its address, or its address with the port; a pattern only matches the id."""
    if GLOB.search(wanted):
        return [f"clientId != null && clientId.matches({_pattern(wanted)})"]
    return [f"{field} == {_text(wanted)}" for field in ("clientId", "address", "client")]


def _pattern(glob: str) -> str:
    """Return a glob, with * (any characters) and ? (one), as a regular expression in a CEL literal."""
    parts = {"*": ".*", "?": "."}
    return _text(f"^{''.join(parts.get(character, re.escape(character)) for character in glob)}$")


def _text(value: str) -> str:
    """Return a text as a CEL literal: CEL has all escapes of JSON."""
    return json.dumps(value, ensure_ascii=False)
