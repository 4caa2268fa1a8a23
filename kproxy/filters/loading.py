"""Load filters: by dotted path ("package.module:Class") or by name (entry point group ``kproxy.filters``), and chains of them."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

from kproxy.errors import UsageError, did_you_mean
from kproxy.filters.chain import (
    HELD_FRAME_SIZE,
    Chain,
    FilterNotStarted,
    OnFault,
    Wait,
    name_of,
    wait_without_limit,
)
from kproxy.filters.contract import Filter, Runtime
from kproxy.filters.passage import InThread
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.options import OptionMistakes, Problem, read_options
from kproxy.protocol.constants import FRAME_LIMIT

GROUP = "kproxy.filters"
BUILT_IN = {
    "audit": "kproxy.filters.audit:Audit",
    "deny": "kproxy.filters.deny:Deny",
    "encrypt": "kproxy.filters.encrypt:Encrypt",
    "headers": "kproxy.filters.headers:Headers",
    "mask": "kproxy.filters.mask:MaskRecords",
    "faults": "kproxy.filters.faults:FaultInjection",
    "rewrite_addresses": "kproxy.filters.rewrite_addresses:RewriteAddresses",
    "telemetry": "kproxy.filters.telemetry:Telemetry",
    "throttle": "kproxy.filters.throttle:Throttle",
    "topic_prefix": "kproxy.filters.topic_prefix:TopicPrefix",
    "validate": "kproxy.filters.validate:Validate",
}  # as pyproject.toml registers them
MODES_THAT_REWRITE = ("port", "sni")


class Use(Protocol):
    """``FilterUse`` of the configuration."""

    @property
    def use(self) -> str: ...
    @property
    def with_(self) -> Mapping[str, Any]: ...


class Mode(Protocol):
    """The part of ``Addresses`` of the configuration that is used here."""

    @property
    def mode(self) -> str: ...


class Uses(Protocol):
    """``Cluster`` of the configuration."""

    @property
    def addresses(self) -> Mode: ...
    @property
    def filters(self) -> Sequence[Use]: ...


class FilterMistakes(UsageError):
    """The mistakes in a filter of the configuration; ``problems`` has each with its path below ``FilterUse``.

    The text names the filter and the options, for readers without the file.
    """

    def __init__(self, sentence: str, problems: list[Problem]) -> None:
        super().__init__(sentence)
        self.problems = problems


def load_chain(
    cluster: Uses,
    *,
    wait: Wait = wait_without_limit,
    most_frame_size: int = FRAME_LIMIT,
    held_frame_size: int = HELD_FRAME_SIZE,
    in_thread: InThread | None = None,
    on_fault: OnFault = lambda name, hook, kind: None,
    clock: Callable[[], int] = lambda: 0,
    runtime: Runtime | None = None,
    again: bool = False,
    before: Sequence[Filter] = (),
    after: Sequence[Filter] = (),
) -> Chain:
    """The chain of a virtual cluster: RewriteAddresses first where addresses are rewritten, so that it has the last word
    on responses; then what the configuration lists. *again*: read the modules of filters that are not kproxy's own again.
    *before*, *after*: filters of kproxy's own that stand before, or after, all others. Raises UsageError.
    """
    if again:
        read_again(use.use for use in cluster.filters)
    filters: list[Filter] = []
    for number, use in enumerate(cluster.filters):
        try:
            filters.append(load_filter(use.use, use.with_))
        except UsageError as error:
            raise UsageError(f"filters[{number}]: {error}") from error
    for number, message in misplaced(filters):
        raise UsageError(f"filters[{number}]: {message}")
    others = [filter_ for filter_ in filters if not isinstance(filter_, RewriteAddresses)]
    first = [RewriteAddresses()] if cluster.addresses.mode in MODES_THAT_REWRITE else []
    try:
        return Chain(
            [*before, *first, *others, *after],
            wait=wait,
            most_frame_size=most_frame_size,
            held_frame_size=held_frame_size,
            in_thread=in_thread,
            on_fault=on_fault,
            clock=clock,
            runtime=runtime,
        )
    except FilterNotStarted as error:
        if error.filter not in filters:
            raise
        raise UsageError(f"filters[{filters.index(error.filter)}]: {error}") from error


def misplaced(filters: Sequence[Filter | None]) -> Iterator[tuple[int, str]]:
    """Yield which filters stand at a wrong place in the list, by that place, and why; None stands for one not loaded.

    Topic ids are the brokers': a filter whose rules name topics must not stand before one that renames topics, as it would
    learn other names for the ids. A filter that reads values has to stand before one that encrypts them. One that has to see all
    requests must not stand behind one that answers some of them.
    """
    for number, filter_ in enumerate(filters):
        if filter_ is not None and filter_.sees_all:
            yield from ((number, message) for message in _hidden_by(filters[:number], filter_))
        if filter_ is not None and filter_.reads_values:
            encrypting = next((each for each in filters[:number] if each is not None and each.encrypts_records), None)
            if encrypting is not None:
                name, other = name_of(filter_), name_of(encrypting)
                yield number, f"{name} has to be listed before {other}: it would find encrypted values only"
        later = next((each for each in filters[number + 1 :] if each is not None and each.renames_topics), None)
        if filter_ is not None and filter_.names_topics and later is not None:
            name, renaming = name_of(filter_), name_of(later)
            why = "topics by id would have other names than those by name"
            yield number, f"{name} has to be listed after {renaming}, and to use the brokers' names: {why}"


def _hidden_by(before: Sequence[Filter | None], filter_: Filter) -> Iterator[str]:
    """Yield a sentence for each filter of *before* that may answer requests which *filter_* has to see."""
    for other in before:
        if other is not None and not set(other.answers).isdisjoint(filter_.requests):
            name, answering = name_of(filter_), name_of(other)
            why = f"requests that {answering} answers would be missing in what {name} writes, or have another outcome"
            renaming = [name_of(each) for each in before if each is not None and each.renames_topics]
            order = ", ".join([*renaming, name, answering])
            so = f"; list {order} in this order" if renaming and filter_.names_topics else ""
            yield f"{name} has to be listed before {answering}: {why}{so}"


def load_filter(use: str, options: Mapping[str, Any]) -> Filter:
    """Make the filter that *use* names, with *options*. Raises FilterMistakes, a sentence for each mistake."""
    try:
        return _made(use, filter_class(use), options)
    except FilterMistakes:
        raise
    except OptionMistakes as error:
        problems = [(f"with.{path}" if path else "with", why) for path, why in error.problems]
        raise FilterMistakes(f"{use!r}: {error}", problems) from error
    except UsageError as error:
        raise FilterMistakes(str(error), [("use", str(error))]) from error


def filter_class(use: str) -> type[Filter]:
    """Return the class that *use* names. Raises UsageError, one sentence."""
    class_ = _find(use)
    if not (isinstance(class_, type) and issubclass(class_, Filter)):
        raise UsageError(f"{use!r} is {_what(class_)}, not a class derived from kproxy.filters.contract.Filter")
    return class_


def filter_names() -> list[str]:
    """Return the names of all filters: kproxy's own, then those that other packages register."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - as in _by_name

    return list(dict.fromkeys([*sorted(BUILT_IN), *sorted(entry.name for entry in entry_points(group=GROUP))]))


def _made(use: str, class_: type[Filter], options: Mapping[str, Any]) -> Filter:
    arguments: Mapping[str, Any] = options
    if class_.Options is not None:
        arguments = {"options": read_options(class_.Options, options)}
    try:
        inspect.signature(class_).bind(**arguments)
    except TypeError as error:
        raise UsageError(f"{use!r} does not take these options ({error}); it takes {_taken(class_)}") from error
    try:
        return class_(**arguments)
    except OptionMistakes:
        raise
    except Exception as error:
        raise UsageError(f"{use!r} refuses its options: {_in_words(error)}{_place(error)}") from error


def module_of(use: str) -> str | None:
    """Return the module of a filter that is not kproxy's own; None for one that is, or that is not registered."""
    path = BUILT_IN.get(use, use)
    if ":" not in path:
        from importlib.metadata import entry_points  # noqa: PLC0415 - 2 MB that few workers need

        path = next((entry.value for entry in entry_points(group=GROUP) if entry.name == use), "")
    module = path.partition(":")[0]
    return module if module and module.partition(".")[0] != "kproxy" else None


def source_of(use: str) -> str | None:
    """Return the source file of a filter that is not kproxy's own; None if there is none."""
    module = module_of(use)
    try:
        spec = importlib.util.find_spec(module) if module else None
    except Exception:  # what a parent package raises when it is imported
        return None
    return spec.origin if spec is not None and spec.has_location else None


def read_again(uses: Iterable[str]) -> None:
    """Load the modules of filters from their files again. Raises UsageError, with all modules as they were before."""
    modules = dict.fromkeys(module for use in uses if (module := module_of(use)) in sys.modules)
    before = {module: sys.modules[module] for module in modules if module}
    try:
        for module in before:
            _read_module_again(module)
    except Exception as error:
        sys.modules.update(before)
        raise UsageError(f"a filter cannot be loaded again: {_in_words(error)}{_place(error)}") from error


def _read_module_again(name: str) -> None:
    """Execute the source in a new module, so that the one in use stays intact.

    A .pyc file is not used, as the times of both files may be equal.
    """
    spec = importlib.util.find_spec(name)
    loader: Any = spec.loader if spec is not None else None
    if spec is None or not hasattr(loader, "get_source"):
        return
    fresh = importlib.util.module_from_spec(spec)
    assert isinstance(fresh, ModuleType)
    sys.modules[name] = fresh
    exec(compile(loader.get_data(spec.origin), str(spec.origin), "exec"), fresh.__dict__)


def _find(use: str) -> object:
    path = BUILT_IN.get(use, use)
    if ":" not in path:
        return _by_name(path)
    module, _, attributes = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *attributes.split(".")]):
        raise UsageError(f'{use!r} is no dotted path like "package.module:Class"')
    return _load(use, module, attributes)


def _by_name(name: str) -> object:
    from importlib.metadata import entry_points  # noqa: PLC0415 - 2 MB that few workers need

    registered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in registered:
        hint = did_you_mean(name, sorted({*registered, *BUILT_IN}))
        end = "" if hint.endswith("?") else "."
        raise UsageError(
            f'there is no filter {name!r}; {hint}{end} A filter of your own is named "package.module:Class"'
        )
    return _load(name, registered[name].module, registered[name].attr)


def _load(use: str, module: str, path: str) -> object:
    try:
        loaded: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        needed = error.name or ""
        if needed == module or module.startswith(f"{needed}."):
            raise UsageError(f"{use!r}: there is no module {needed!r} where Python looks (PYTHONPATH)") from error
        raise UsageError(f"{use!r}: module {module!r} needs {needed!r}, which is not installed") from error
    except Exception as error:
        raise UsageError(f"{use!r}: module {module!r} cannot be imported: {_in_words(error)}{_place(error)}") from error
    for attribute in path.split("."):
        if not hasattr(loaded, attribute):
            raise UsageError(f"{use!r}: {module!r} has no {path!r}")
        loaded = getattr(loaded, attribute)
    return loaded


def _what(value: object) -> str:
    return f"the class {value.__qualname__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"


def _taken(filter_class: type[Filter]) -> str:
    return ", ".join(map(str, inspect.signature(filter_class).parameters.values())) or "none"


def _in_words(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}{': ' if text else ''}{text}"


def _place(error: Exception) -> str:
    """Return the line of code that is at fault, if it is not kproxy's own."""
    if isinstance(error, SyntaxError):
        return ""  # its text has it
    trace = error.__traceback__
    place = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and not trace.tb_frame.f_globals.get("__name__", "").startswith("kproxy."):
            place = f" at {file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
