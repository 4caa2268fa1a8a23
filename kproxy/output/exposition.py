"""Families of metrics, and their text: Prometheus' format 0.0.4, or OpenMetrics 1.0. Protobuf is in histograms.py.

prometheus_client writes the same text, but comes with an HTTP server, a client and a registry: 1 MB of every proxy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SUFFIX = {"counter": "_total", "info": "_info"}  # of the sample, and outside of OpenMetrics of the family


class Sample(NamedTuple):
    """One number. *ending*: what its name has after that of the family."""

    ending: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class MetricFamily:
    """A metric with its samples."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "info", "histogram"]
    samples: list[Sample] = field(default_factory=list)

    def add(self, labels: Mapping[str, str], value: float) -> None:
        """Add a sample of a counter, a gauge or an info."""
        self.samples.append(Sample(SUFFIX.get(self.kind, ""), labels, value))


def encode_text(families: Iterable[MetricFamily], *, openmetrics: bool) -> bytes:
    lines: list[str] = []
    for family in families:
        name, kind, about = family.name, str(family.kind), _escaped(family.help)
        if not openmetrics:
            name += SUFFIX.get(kind, "")
            kind = "gauge" if kind == "info" else kind
            about = about.replace(r"\"", '"')
        lines.append(f"# HELP {name} {about}\n# TYPE {name} {kind}\n")
        lines.extend(_line(family.name, sample) for sample in family.samples)
    if openmetrics:
        lines.append("# EOF\n")
    return "".join(lines).encode("utf-8", "replace")


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(sample.labels.items()))
    number = repr(float(sample.value))
    value = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(number, number)
    return f"{name}{sample.ending}{f'{{{labels}}}' if labels else ''} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def prefers(accept: str, kind: str, *parameters: str) -> bool:
    """Return whether a scraper prefers a format to all others, by the qualities in its Accept header (RFC 9110, 12.5.1)."""
    best, wanted = 0.0, -1.0
    for entry in accept.lower().split(","):
        named, *given = (part.strip().replace(" ", "") for part in entry.split(";"))
        quality = next((_quality(one[2:]) for one in given if one.startswith("q=")), 1.0)
        if named == kind and set(parameters) <= set(given):
            wanted = max(wanted, quality)
        else:
            best = max(best, quality)
    return wanted > 0 and wanted >= best


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
