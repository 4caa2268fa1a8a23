"""Text, a file or options -> a valid Config, or a ConfigError with every mistake."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kproxy.config.checks import Problem, check_ports, check_values
from kproxy.config.files import check_files, check_filters
from kproxy.config.structs import Addresses, Cluster, Config, FilterUse
from kproxy.encryption.services.settings import KeySettings
from kproxy.errors import ConfigError, Mistake, UsageError
from kproxy.options import OptionMistakes, Rotated, Warn

if TYPE_CHECKING:
    from kproxy.config.convert import Place

FAULTS = "faults"  # the filter, and its option
# Path of the configuration -> the option that sets it, for mistakes of options.
OPTIONS = {
    "clusters[0].listen": "--listen",
    "clusters[0].bootstrap": "--bootstrap",
    "clusters[0].addresses.advertise": "--advertise",
    "clusters[0].addresses": "--listen",
    "clusters[0].filters": "--fault",
    "analysis.log": "--log",
    "analysis.capture": "--capture",
    "analysis.enabled": "--no-analysis",
    "admin": "--admin",
    "workers": "--workers",
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `kproxy run`; None: not given. ``file``, or ``listen`` and ``bootstrap``, are required."""

    file: str | None = None
    listen: str | None = None
    bootstrap: list[str] = []
    advertise: str | None = None
    admin: str | None = None  # "off": no admin server
    analysis: bool = True
    workers: int | None = None
    outlive: bool = False
    log: str | None = None
    capture: str | None = None
    faults: list[str] = []  # for all clusters: "api_name=Produce error=NOT_LEADER_OR_FOLLOWER times=2"
    reload_filters: bool = False  # load filters again when their files change
    until_input_ends: bool = False  # stop when standard input ends, as it does when the process that holds it is killed


def parse_config(text: str, path: str) -> Config:
    """Parse and check the YAML *text* of the file *path*, and the files that it refers to.

    Raises ConfigError with every mistake: names, types, values, contradictions, ports bound twice, files, filters.
    """
    return _parse(text, path, Options())


def read_config(path: str) -> Config:
    """Read a file and parse it as `parse_config` does. Raises ConfigError, also if the file cannot be read."""
    return parse_config(_read(path), path)


def config_from_options(
    options: Options, *, filters: Callable[[Config], bool] = lambda _: True, warn: Warn | None = None
) -> Config:
    """Create the configuration from the options of `kproxy run`; with ``file``, from the file, overridden by the other options.

    Args:
        options: the command line.
        filters: returns whether to check that the filters load.
        warn: for Options.problems_elsewhere of filters; None: nothing is looked up over the network.

    Raises ConfigError with every mistake; a mistake of an option names the option.
    """
    if options.file is not None:
        return _parse(_read(options.file), options.file, _without_addresses(options), filters, warn)
    needed = ("--listen", options.listen), ("--bootstrap", options.bootstrap)
    missing = [Mistake(0, 0, name, "it is missing (or -c FILE)") for name, given in needed if not given]
    if missing:
        raise ConfigError(missing)
    addresses = Addresses(advertise=options.advertise)
    cluster = Cluster(listen=cast(str, options.listen), bootstrap=options.bootstrap, addresses=addresses)
    config = _with_options(Config(clusters=[cluster]), options)
    _raise_if_any(_problems(config, filters, warn), {}, [], "")
    return config


def read_key_settings(path: str) -> KeySettings:
    """Read the file of the option --keys: which key service to use. Raises ConfigError with every mistake and its place."""
    from kproxy.config.convert import Conversion, read_tree  # noqa: PLC0415 - with a YAML parser, which only files need

    conversion = Conversion()
    problems: list[Problem] = []
    settings = None
    try:
        settings = conversion.convert(read_tree(_read(path), path), KeySettings)
    except OptionMistakes as error:  # of the options of the key service
        problems = error.problems
    _raise_if_any(problems, conversion.places, conversion.mistakes, path, conversion.misspelled)
    assert settings is not None
    return settings


def _parse(
    text: str, path: str, options: Options, filters: Callable[[Config], bool] = lambda _: True, warn: Warn | None = None
) -> Config:
    from kproxy.config.convert import Conversion, read_tree  # noqa: PLC0415 - as above

    conversion = Conversion()
    config = _with_options(conversion.convert(read_tree(text, path), Config), options)
    problems = _problems(config, filters, warn)
    _raise_if_any(problems, conversion.places, conversion.mistakes, path, conversion.misspelled)
    return config


def _read(path: str) -> str:
    from kproxy.config.convert import MOST_TEXT  # noqa: PLC0415 - as above

    try:
        with Path(path).open("rb") as file:
            return file.read(MOST_TEXT + 1).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Mistake(0, 0, "", error.strerror or str(error))], path) from None
    except UnicodeDecodeError as error:
        before: bytes = error.object[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        what = f"the file is not UTF-8: it has the byte {error.object[error.start]:02x} here"
        raise ConfigError([Mistake(line, column, "", what)], path) from None


def _without_addresses(options: Options) -> Options:
    for name in ("listen", "bootstrap", "advertise"):
        if getattr(options, name):
            raise UsageError(f"--{name} cannot be used with -c: set it in the file")
    return options


def _with_options(config: Config, options: Options) -> Config:
    admin = config.admin if options.admin is None else options.admin
    changes: dict[str, Any] = {"admin": None if admin == "off" else admin}
    if options.workers is not None:
        changes["workers"] = options.workers
    if options.outlive:
        changes["outlive"] = True
    if options.faults:
        changes["clusters"] = [_with_faults(cluster, options.faults) for cluster in config.clusters]
    files = {"log": options.log, "capture": options.capture}
    written: dict[str, Any] = {name: Rotated(path=path) for name, path in files.items() if path is not None}
    analysis = msgspec.structs.replace(config.analysis, **written)
    if not options.analysis:
        analysis = msgspec.structs.replace(analysis, enabled=False)
    return msgspec.structs.replace(config, analysis=analysis, **changes)


def _with_faults(cluster: Cluster, faults: list[str]) -> Cluster:
    """Return the cluster with more faults after its own. Raises UsageError."""
    from kproxy.filters.faults.options import parse_fault  # noqa: PLC0415 - few runs have faults

    added = [parse_fault(text) for text in faults]
    own = [use for use in cluster.filters if use.use == FAULTS]
    if own and isinstance(before := own[0].with_.get(FAULTS, []), list):
        more = msgspec.structs.replace(own[0], with_={**own[0].with_, FAULTS: [*before, *added]})
        uses = [more if use is own[0] else use for use in cluster.filters]
    else:
        uses = [*cluster.filters, FilterUse(use=FAULTS, with_={FAULTS: added})]
    return msgspec.structs.replace(cluster, filters=uses)


def _problems(config: Config, filters: Callable[[Config], bool], warn: Warn | None) -> Iterator[Problem]:
    yield from check_values(config)
    yield from check_ports(config)
    yield from check_files(config)
    if filters(config):
        yield from check_filters(config, warn)


def _raise_if_any(
    problems: Iterable[Problem],
    places: Mapping[str, "Place"],
    mistakes: Sequence[Mistake],
    source: str,
    misspelled: Set[str] = frozenset(),
) -> None:
    """Raise ConfigError for *mistakes*, and for *problems* with their places, except those of what could not be read in full."""
    broken = {mistake.path for mistake in mistakes} | misspelled
    every = list(mistakes)
    for path, message in problems:
        if any(_is_about(one, path, message) for one in misspelled):
            continue
        if not broken.intersection(_with_parents(path)) and not any(one.startswith(f"{path}.") for one in broken):
            line, column = _place(path, places)
            every.append(Mistake(line, column, path if source else _option(path), message))
    if every:
        raise ConfigError(sorted(dict.fromkeys(every), key=lambda mistake: (mistake.line, mistake.column)), source)


def _is_about(misspelled: str, path: str, message: str) -> bool:
    """Return whether the problem is that a setting with a misspelled name is missing: the message names the setting.

    Only for names such as listener_tls, which are no ordinary words.
    """
    group, _, name = misspelled.rpartition(".")
    return "_" in name and group in _with_parents(path) and re.search(rf"\b{name}\b", message) is not None


def _with_parents(path: str) -> Iterator[str]:
    """ "a[0].b" -> itself, "a[0]", "a", ""."""
    yield path
    while path:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
        yield path


def _place(path: str, places: Mapping[str, "Place"]) -> "Place":
    """Return line and column of the path in the file, or of what contains it; (0, 0) if there is none."""
    return next((places[part] for part in _with_parents(path) if part in places), (0, 0))


def _option(path: str) -> str:
    return next((OPTIONS[part] for part in _with_parents(path) if part in OPTIONS), path)
