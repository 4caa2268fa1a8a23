"""A filter by dotted path ("package.module:Class") or by name (entry point group ``kproxy.filters``), and a chain of them."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kproxy.errors import UsageError
from kproxy.filters.chain import Chain, Wait, wait_without_limit
from kproxy.filters.contract import Filter
from kproxy.filters.passage import Aside
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol.frames import FRAME_LIMIT

GROUP = "kproxy.filters"
BUILT_IN = {
    "rewrite_addresses": "kproxy.filters.rewrite_addresses:RewriteAddresses"
}  # as pyproject.toml registers them
MODES_THAT_REWRITE = ("port", "sni")


class Use(Protocol):
    """``FilterUse`` of the configuration."""

    @property
    def use(self) -> str: ...
    @property
    def with_(self) -> Mapping[str, Any]: ...


class Mode(Protocol):
    """Of ``Addresses`` of the configuration."""

    @property
    def mode(self) -> str: ...


class Uses(Protocol):
    """``Cluster`` of the configuration."""

    @property
    def addresses(self) -> Mode: ...
    @property
    def filters(self) -> Sequence[Use]: ...


def load_chain(
    cluster: Uses,
    *,
    wait: Wait = wait_without_limit,
    most_frame_size: int = FRAME_LIMIT,
    aside: Aside | None = None,
    on_fault: Callable[[str], None] = lambda name: None,
) -> Chain:
    """The chain of a virtual cluster: RewriteAddresses first where addresses are rewritten, so that it has the last word
    on responses; then what the configuration lists. Raises UsageError.
    """
    filters: list[Filter] = []
    for number, use in enumerate(cluster.filters):
        try:
            filters.append(load_filter(use.use, use.with_))
        except UsageError as error:
            raise UsageError(f"filters[{number}]: {error}") from error
    others = [filter_ for filter_ in filters if not isinstance(filter_, RewriteAddresses)]
    first = [RewriteAddresses()] if cluster.addresses.mode in MODES_THAT_REWRITE else []
    return Chain([*first, *others], wait=wait, most_frame_size=most_frame_size, aside=aside, on_fault=on_fault)


def load_filter(use: str, options: Mapping[str, Any]) -> Filter:
    """The filter that *use* names, made with *options* as keyword arguments. Raises UsageError, one sentence."""
    found = _find(use)
    if not (isinstance(found, type) and issubclass(found, Filter)):
        raise UsageError(f"{use!r} is {_what(found)}, not a class derived from kproxy.filters.contract.Filter")
    try:
        inspect.signature(found).bind(**options)
    except TypeError as error:
        raise UsageError(f"{use!r} does not take these options ({error}); it takes {_taken(found)}") from error
    try:
        return found(**options)
    except Exception as error:
        raise UsageError(f"{use!r} refuses its options: {_in_words(error)}") from error


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
        names = ", ".join(sorted({*registered, *BUILT_IN}))
        raise UsageError(f'there is no filter {name!r}; there are {names}, or give "package.module:Class"')
    return _load(name, registered[name].module, registered[name].attr)


def _load(use: str, module: str, path: str) -> object:
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        needed = error.name or ""
        if needed == module or module.startswith(f"{needed}."):
            raise UsageError(f"{use!r}: there is no module {needed!r} where Python looks (PYTHONPATH)") from error
        raise UsageError(f"{use!r}: module {module!r} needs {needed!r}, which is not installed") from error
    except Exception as error:
        raise UsageError(f"{use!r}: module {module!r} cannot be imported: {_in_words(error)}") from error
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise UsageError(f"{use!r}: {module!r} has no {path!r}")
        found = getattr(found, attribute)
    return found


def _what(found: object) -> str:
    return f"the class {found.__qualname__}" if isinstance(found, type) else f"a value of type {type(found).__name__}"


def _taken(filter_class: type[Filter]) -> str:
    return ", ".join(map(str, inspect.signature(filter_class).parameters.values())) or "none"


def _in_words(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}{': ' if text else ''}{text}"
