"""Values of parameters: convert text from the command line to the type of the default, check names and ranges."""

from collections.abc import Mapping

from kproxy.analyses.analysis import Analysis, Parameter, Value, is_number
from kproxy.errors import UsageError, did_you_mean

TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")


def bind(analysis: Analysis, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return a value for every parameter of the analysis, given or default. Raises UsageError."""
    defaults = analysis.parameters
    for name in given:
        if name not in defaults:
            raise UsageError(f"{analysis.id} has no parameter {name[:80]!r}; {_hint(name, defaults)}")
    values = {name: _convert(name, given.get(name, default), default) for name, default in defaults.items()}
    for name, parameter in analysis.header.parameters.items():
        _check_range(name, values[name], parameter)
    return values


def known_to(analysis: Analysis, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the given values whose names are parameters of the analysis."""
    return {name: value for name, value in given.items() if name in analysis.parameters}


def _hint(name: str, known: Mapping[str, Value]) -> str:
    if not known:
        return "it has none"
    return did_you_mean(name, known)


def _check_range(name: str, value: Value, parameter: Parameter) -> None:
    """Raise UsageError for a number that is out of range, or NaN."""
    if is_number(value) and is_number(parameter.default):
        least, most = parameter.range
        if not least <= value <= most:
            raise UsageError(f"the parameter {name} is from {least:,} to {most:,}, not {str(value)[:40]}")


def _convert(name: str, value: Value, default: Value) -> Value:
    """A text as a value of the default's type. Raises UsageError."""
    if not isinstance(value, str) or default is None or isinstance(default, str):
        return value
    try:
        if isinstance(default, bool):
            if value.lower() not in TRUE + FALSE:
                raise ValueError("neither true nor false")
            return value.lower() in TRUE
        return int(value) if isinstance(default, int) else float(value)
    except ValueError:
        kind = (
            "true or false"
            if isinstance(default, bool)
            else "a whole number"
            if isinstance(default, int)
            else "a number"
        )
        raise UsageError(f"the parameter {name} is {kind}, not {value[:80]!r}") from None
