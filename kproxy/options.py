"""Typed options of filters and key services: a Struct with a type, a default and a description for each, read from plain values.

A filter declares them and gets an instance, checked, as the only argument of its constructor:

    class QuotaOptions(Options, frozen=True):
        rate: Annotated[int, Meta(ge=1), text("Requests in a second.")] = 100
        window: Annotated[Seconds, text("How long a burst may last.")] = 1.0

    class Quota(Filter):
        Options = QuotaOptions

        def __init__(self, options: QuotaOptions) -> None: ...

The types below are those of the configuration too (kproxy.config.structs): Seconds may be written "10s", a Size "16MiB".
``read_options`` finds all mistakes at once, each with its path, from which kproxy.config has the line in the file.
Types that it reads: str, int, float, bool, Literal, other Structs, lists, tuples and dicts of them, and each of these or None.

Numbers may have a unit ("500ms", "10s", "5m", "1h"; "64KiB", "16MiB", "10MB"). Where a message repeats a part of a configuration,
secrets are withheld: passwords in addresses, keys in PEM, values under a name that sounds like that of a secret. OtlpEndpoint is
where something is exported to over OTLP: traces of the configuration, and metrics of the filter telemetry.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Meta, inspect

from kproxy.errors import UsageError, did_you_mean, meant_names
from kproxy.protocol.addresses import MOST_PORT
from kproxy.protocol.vocabulary import OPTION_ALIASES

UNIT = "x-unit"  # marks a number that may be written with a unit
CONDITION = "x-condition"  # marks a condition in CEL; its value is the scope whose fields it uses
LONGEST_TEXT = 4_096
MOST_DEPTH = 32
RANGES: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("ge", operator.ge, "at least"),
    ("gt", operator.gt, "more than"),
    ("le", operator.le, "at most"),
    ("lt", operator.lt, "less than"),
)
EXPECTED: dict[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.DictType: "names with values",
}
TYPES: dict[type[inspect.Type], type | tuple[type, ...]] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: (int, float),
    inspect.BoolType: bool,
    inspect.StructType: dict,
    inspect.DictType: dict,
    inspect.ListType: list,
    inspect.VarTupleType: list,
}
# where text is expected, or a group that may have been meant and written wrongly ("password:x")
HAVE_TEXT = (inspect.StrType, inspect.StructType, inspect.DictType, inspect.ListType, inspect.VarTupleType)

Seconds = Annotated[float, Meta(gt=0, le=31_536_000, extra_json_schema={UNIT: "seconds"})]
Size = Annotated[int, Meta(ge=1, le=1 << 48, extra_json_schema={UNIT: "bytes"})]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Problem = tuple[str, str]  # path, message
Warn = Callable[[str, str], None]  # an event of the log, its reason


def text(description: str) -> Meta:
    """Describe a setting, for the JSON Schema and the reference page."""
    return Meta(description=description)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the options of a filter, and of groups of them; an unknown name is a mistake."""

    def problems_here(self) -> "Iterator[Problem]":
        """Yield what these options need and this machine does not have, such as files, secrets and packages, by path below them.

        ``kproxy check`` calls it. It opens nothing for writing, and asks nobody over a network.
        """
        yield from ()

    def problems_elsewhere(self, warn: Warn) -> "Iterator[Problem]":
        """Yield what services over a network refuse, by path below them. ``kproxy run`` calls it at its start.

        *warn*: called for a service that does not answer, which is no problem.
        """
        yield from ()


class Rotated(Options, frozen=True):
    """A file that is rotated by size and age; older parts get numbers."""

    path: Annotated[str, text("Path of the part that is being written; older parts have a number after it.")]
    most_size: Annotated[Size, text("Size at which the next part begins.")] = 100 * 1024 * 1024
    most_age: Annotated[Seconds, text("Age at which the next part begins.")] = 3_600.0
    keep: Annotated[
        int, Meta(ge=1, le=100_000), text("Number of parts, the one being written included; the oldest is deleted.")
    ] = 10


class OptionMistakes(UsageError):
    """The mistakes in the options of a filter; ``problems`` has the path and the message of each."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in problems))
        self.problems = problems


S = TypeVar("S", bound=msgspec.Struct)


def read_options(kind: type[S], values: Mapping[str, Any]) -> S:
    """Make the options *kind* from plain values, such as those under ``with``. Raises OptionMistakes with every mistake."""
    problems: list[Problem] = []
    made = _Reading(problems).value(dict(values), inspect.type_info(kind), "", 0)
    if problems:
        raise OptionMistakes(problems)
    return cast(S, made)


class _Reading:
    """Reads values by their types; collects mistakes and continues."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems

    def value(self, value: Any, kind: inspect.Type, path: str, depth: int) -> Any:
        kind, unit = bare(kind)
        if depth > MOST_DEPTH:
            return self._mistake(path, "it is nested too deeply")
        if isinstance(kind, inspect.UnionType):
            return self._union(value, kind, path, depth)
        if isinstance(value, dict | list) and _fits(value, kind):
            return self._group(value, kind, path, depth)
        try:
            return within(_plain(value, kind, unit, path), kind)
        except ValueError as error:
            return self._mistake(path, str(error))

    def _group(self, value: Any, kind: inspect.Type, path: str, depth: int) -> Any:
        match kind:
            case inspect.StructType():
                return self._struct(value, kind, path, depth)
            case inspect.DictType():
                kind = kind.value_type
                return {name: self.value(item, kind, _join(path, str(name)), depth + 1) for name, item in value.items()}
            case inspect.ListType() | inspect.VarTupleType():
                if len(value) < (kind.min_length or 0):
                    return self._mistake(path, "the list is empty")
                items = (self.value(v, kind.item_type, f"{path}[{at}]", depth + 1) for at, v in enumerate(value))
                return list(items) if isinstance(kind, inspect.ListType) else tuple(items)
        return value

    def _mistake(self, path: str, message: str) -> None:
        self._problems.append((path, message))

    def _union(self, value: Any, kind: inspect.UnionType, path: str, depth: int) -> Any:
        kinds = [member for member in kind.types if not isinstance(bare(member)[0], inspect.NoneType)]
        if value is None and len(kinds) < len(kind.types):
            return None
        fitting = [member for member in kinds if _fits(value, bare(member)[0])]
        return self.value(value, (fitting or kinds)[0], path, depth + 1)

    def _struct(self, values: dict[str, Any], kind: inspect.StructType, path: str, depth: int) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        members: dict[str, Any] = {}
        unknown: list[str] = []
        before = len(self._problems)
        for name, value in values.items():
            field = fields.get(name) or fields.get(OPTION_ALIASES.get(name, ""))
            if field is None:
                unknown.append(str(name))
                self._mistake(_join(path, str(name)), f"unknown name: {did_you_mean(str(name), fields)}")
            elif name != field.encode_name and field.encode_name in values:
                self._mistake(_join(path, name), f"it is the former name of {field.encode_name}, which is here as well")
            else:
                members[field.name] = self.value(value, field.type, _join(path, name), depth + 1)
        missing = [name for name, field in fields.items() if field.name not in members]
        meant = meant_names(unknown, fields, missing)
        for name in missing:
            if fields[name].required and name not in meant:
                self._mistake(_join(path, name), "it is missing")
        return None if len(self._problems) > before else self._made(kind, members, path)

    def _made(self, kind: inspect.StructType, members: dict[str, Any], path: str) -> Any:
        """Make the struct. Its ``__post_init__`` may refuse values, by rules that no type expresses.

        It raises ValueError, or OptionMistakes with the path of each mistake below the struct.
        """
        try:
            return kind.cls(**members)
        except OptionMistakes as error:
            self._problems += [(f"{path}.{below}" if path else below, message) for below, message in error.problems]
        except ValueError as error:
            self._mistake(path, str(error))
        return None


def _plain(value: Any, kind: inspect.Type, unit: str | None, path: str) -> Any:
    """Return the value as the scalar *kind*. Raises ValueError that says what is expected."""
    if unit is not None and isinstance(value, str):
        number = parse_quantity(value, unit)
        return int(number) if isinstance(kind, inspect.IntType) else number
    if isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            raise ValueError(f"{_shown(value, kind, path)} is {not_one_of(value, kind.values)}")
        return value
    if not _fits(value, kind):
        hint = ": write it in quotes" if isinstance(kind, inspect.StrType) and isinstance(value, int | float) else ""
        if isinstance(kind, inspect.ListType | inspect.VarTupleType) and isinstance(value, str):
            hint = f": write [{_shown(value, kind, path)}]"
        raise ValueError(f"expected {expected(kind, unit)}; found {_shown(value, kind, path)}{hint}")
    return float(value) if isinstance(kind, inspect.FloatType) else value


def _fits(value: Any, kind: inspect.Type) -> bool:
    if isinstance(value, bool):
        return isinstance(kind, inspect.BoolType | inspect.AnyType)
    wanted = TYPES.get(type(kind))
    return wanted is None or isinstance(value, wanted)


def within(value: Any, kind: inspect.Type) -> Any:
    """Return the value. Raises ValueError if it is outside the range of its type."""
    for name, holds, words in RANGES:
        limit = getattr(kind, name, None)
        if limit is not None and not holds(value, limit):
            raise ValueError(f"{value} is out of range: it has to be {words} {limit:,}")
    if isinstance(kind, inspect.StrType):
        if not (kind.min_length or 0) <= len(value) <= (kind.max_length or LONGEST_TEXT):
            raise ValueError(f"it has to have {kind.min_length or 0} to {kind.max_length or LONGEST_TEXT:,} characters")
        if kind.pattern and not re.search(kind.pattern, value):
            raise ValueError(f"{quoted(value)} does not match {kind.pattern}")
    return value


def bare(kind: inspect.Type) -> tuple[inspect.Type, str | None]:
    """Return the type without its metadata, and the unit in the metadata."""
    unit = None
    while isinstance(kind, inspect.Metadata):
        unit = (kind.extra_json_schema or {}).get(UNIT, unit)
        kind = kind.type
    return kind, unit


def expected(kind: inspect.Type, unit: str | None) -> str:
    """Return in words what values a type allows."""
    if unit is not None:
        return f"{'a time' if unit == 'seconds' else 'a size'} ({EXAMPLES[unit]})"
    if isinstance(kind, inspect.LiteralType):
        return f"one of {listed(kind.values)}"
    if isinstance(kind, inspect.StructType):
        return f"a group of {listed(field.encode_name for field in kind.fields)}"
    return EXPECTED.get(type(kind), "a value")


def listed(names: Iterable[Any]) -> str:
    """Return the names with commas between them."""
    return ", ".join(str(name) for name in names)


def not_one_of(value: object, known: Iterable[Any]) -> str:
    """Return "not one of a, b, c", with the closest of them if one is close."""
    names = [str(name) for name in known]
    hint = did_you_mean(str(value), names)
    return f"not one of {listed(names)}" + (f": {hint}" if hint.startswith("did you mean") else "")


def _shown(value: Any, kind: inspect.Type, path: str) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, dict):
        return "names with values"
    if isinstance(value, list):
        return "a list"
    may_be_secret = isinstance(kind, HAVE_TEXT) and is_secret(path, str(value))
    return WITHHELD if may_be_secret else quoted(str(value))


def _join(path: str, name: str) -> str:
    name = name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) else quoted(name)
    return f"{path}.{name}" if path else name


SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
BYTES: dict[str, float] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
UNITS: dict[str, dict[str, float]] = {"seconds": SECONDS, "bytes": BYTES}
EXAMPLES = {"seconds": '10, "500ms", "10s", "5m" or "1h"', "bytes": '65536, "64KiB", "16MiB" or "1GiB"'}
NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s?([A-Za-z]{1,3})?", re.ASCII)


def parse_quantity(text: str, unit: str) -> float:
    """Parse *text* as a number of *unit* ("seconds" or "bytes"). Raises ValueError that shows how to write one."""
    match = NUMBER.fullmatch(text.strip())
    factor = UNITS[unit].get(match[2]) if match and match[2] else 1.0
    if match is None or factor is None:
        raise ValueError(f"{quoted(text)} is not a number of {unit}: write {EXAMPLES[unit]}")
    value = float(match[1]) * factor
    if unit == "bytes" and value != int(value):
        raise ValueError(f"{quoted(text)} is not a whole number of bytes")
    return value


def render_quantity(value: float, unit: str) -> str:
    """Render a number of *unit* as people write it: 104857600 bytes as 100MiB, 3600 seconds as 1h."""
    for name in reversed(("ms", "s", "m", "h") if unit == "seconds" else ("B", "KiB", "MiB", "GiB")):
        count = value / UNITS[unit][name]
        if count >= 1 and count == int(count):
            return f"{int(count)}{name}"
    return f"{value:.15g}"


def unit_pattern(unit: str) -> str:
    """Return the regular expression of such a text, for JSON Schema."""
    names = "|".join(UNITS[unit])
    return rf"^[0-9]{{1,15}}(\.[0-9]{{1,9}})? ?({names})?$"


def quoted(text: str) -> str:
    """Quote *text* for a message: on one line, escaped, at most 80 characters, without what may be a secret."""
    text = without_secrets(text)
    shown = ascii(text) if any(not character.isprintable() for character in text) else f'"{text}"'
    return shown if len(shown) <= 80 else f"{shown[:76]}…{shown[-1]}"


WITHHELD = "(withheld)"
SOUNDS_SECRET = re.compile(r"pass|pwd|secret|token|credential|auth|jaas|cookie|header|salt|key", re.IGNORECASE)
_IN_URL = re.compile(r"(\w://).*@", re.DOTALL)  # "socks5://user:password@host"; a password may have an @ or a /
_IN_ADDRESS = re.compile(r".*:.*@", re.DOTALL)  # "user:password@host:9092", which is no address
_PEM = "-----BEGIN"


def without_secrets(text: str) -> str:
    """Return the text without user and password before a host, and nothing of it if it is PEM, which may be a private key."""
    if _PEM in text:
        return WITHHELD
    shown = without_user_info(text)
    return shown if shown != text else _IN_ADDRESS.sub(f"{WITHHELD}@", text)


def without_user_info(text: str) -> str:
    """Return the text without user and password if it is a URL that has them."""
    return _IN_URL.sub(rf"\1{WITHHELD}@", text)


def is_secret(name: str, text: str) -> bool:
    """Return whether *text* may be a secret: its *name* is that of one, or the text has such a name in it ("password:x")."""
    return SOUNDS_SECRET.search(name) is not None or SOUNDS_SECRET.search(text) is not None


URL = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})((?:/[A-Za-z0-9._~%!$&'()*+,;=:-]*)*)", re.ASCII
)
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)  # token of RFC 9110
VALUE = re.compile(r"[\t\x20-\x7e]{0,8000}", re.ASCII)
TAKEN = frozenset(("host", "content-length", "content-type", "transfer-encoding", "connection"))  # set by kproxy
MOST_HEADERS = 50
EXAMPLE = 'write "http://collector:4318"'


class OtlpEndpoint(Options, frozen=True):
    """An OpenTelemetry collector, or a backend that takes OTLP."""

    otlp: Annotated[
        str,
        text(
            "The collector: http://host:port, or https://. Its port is mostly 4318 for http/protobuf and 4317 for grpc. A path "
            "stays before that of OTLP (/v1/traces, /v1/metrics)."
        ),
    ]
    protocol: Annotated[
        Literal["http/protobuf", "grpc"], text('How OTLP is carried. grpc needs: pip install "kproxy-kafka[otlp]".')
    ] = "http/protobuf"
    headers: Annotated[
        dict[str, str],
        text("Headers of each request, such as authorization; withheld wherever kproxy shows its options."),
    ] = msgspec.field(default_factory=dict)
    ca: Annotated[str | None, text("File with the CAs that sign the collector's certificate; null: the system's.")] = (
        None
    )
    timeout: Annotated[Seconds, text("How long one request may take, from connecting to the end of the answer.")] = 10.0


def endpoint_problems(endpoint: OtlpEndpoint) -> Iterator[Problem]:
    """Yield what types do not express: (path below the endpoint, message). No message contains the value of a header."""
    try:
        target_of(endpoint)
    except ValueError as error:
        yield "otlp", str(error)
    if endpoint.ca is not None and endpoint.otlp.startswith("http://"):
        yield "ca", "it has no effect with http://: write https:// or leave it out"
    if len(endpoint.headers) > MOST_HEADERS:
        yield "headers", f"at most {MOST_HEADERS} headers are sent"
    for name, value in endpoint.headers.items():
        if not NAME.fullmatch(name):
            yield "headers", f"{quoted(name)} is not the name of a header"
        elif name.lower() in TAKEN:
            yield f"headers.{name}", "kproxy sets this header itself: leave it out"
        elif endpoint.protocol == "grpc" and name.lower().startswith("grpc-"):
            yield f"headers.{name}", "names that begin with grpc- are gRPC's own: leave it out"
        elif not VALUE.fullmatch(value):
            yield f"headers.{name}", "its value has to be printable ASCII, of at most 8,000 characters"


class Target(NamedTuple):
    """The parts of the URL."""

    tls: bool
    host: str  # without brackets
    port: int
    path: str  # "" or "/…", without a slash at its end


def target_of(endpoint: OtlpEndpoint) -> Target:
    """The parts of the URL. Raises ValueError that says what to write; the URL is not repeated, as it may have a password."""
    url = endpoint.otlp
    match = URL.fullmatch(url)
    if match is not None and 0 < int(match[3]) <= MOST_PORT:
        if endpoint.protocol == "grpc" and match[4].strip("/"):
            raise ValueError("grpc has no path: leave it out")
        return Target(match[1] == "https", match[2].strip("[]"), int(match[3]), match[4].rstrip("/"))
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"it is not the URL of a collector: {EXAMPLE}")
    if "@" in url:
        raise ValueError("it has a user or password in it: send them with headers (authorization)")
    if "?" in url or "#" in url:
        raise ValueError("it has to end after the path: leave out what begins with ? or #")
    raise ValueError(f"it is not http(s)://host:port: {EXAMPLE}, or port 4317 for grpc")
