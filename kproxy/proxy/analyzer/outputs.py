"""The files of the analyzer, written while traffic runs. FILES lists them; add a line for another."""

from collections.abc import Callable
from pathlib import Path

from kproxy.config import Rotated
from kproxy.output.jsonl import event_line
from kproxy.pipeline.output import Output
from kproxy.pipeline.pcapng_output import LivePcapng
from kproxy.pipeline.rotating_file import Report, RotatingFile
from kproxy.proxy.analyzer.settling import LogLines

Clock = Callable[[], float]

# By the name that the option has below ``analysis`` in the configuration, and in counts
FILES: dict[str, Callable[[RotatingFile], Output]] = {
    "log": lambda file: LogLines(event_line, file),  # as ``kproxy decode --format jsonl`` writes it
    "capture": LivePcapng,
}


def rotating_file(options: Rotated, clock: Clock, report: Report) -> RotatingFile:
    """A file with the sizes and ages of the configuration."""
    return RotatingFile(
        Path(options.path),
        most_size=options.most_size,
        most_age=options.most_age,
        keep=options.keep,
        clock=clock,
        report=report,
    )
