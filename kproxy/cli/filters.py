"""``kproxy filters``: the filters there are, and the reference of one."""

import shutil
from enum import StrEnum

import click
import msgspec

from kproxy.filters.loading import filter_class, filter_names
from kproxy.filters.reference import described, render_list, render_page
from kproxy.pipeline.sink import Sink

WIDEST = 120


class Format(StrEnum):
    """The formats of the reference."""

    TEXT = "text"
    JSON = "json"


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([known.value for known in Format]),
    default=Format.TEXT.value,
    show_default=True,
    help="text for people, json for programs.",
)
def filters(name: str | None, format_name: str) -> None:
    """List the filters, or show one and its options.

    \b
    kproxy filters
    kproxy filters audit
    kproxy filters mypackage.module:MyFilter

    A filter is used by its name in the configuration, see kproxy check --schema.
    """
    names = [name] if name is not None else filter_names()
    classes = [filter_class(each) for each in names]
    width = min(shutil.get_terminal_size((100, 24)).columns, WIDEST)
    with Sink(None, live=False) as sink:
        if format_name == Format.JSON:
            data = [described(*each) for each in zip(names, classes, strict=True)]
            sink.write(msgspec.json.format(msgspec.json.encode(data if name is None else data[0]), indent=2) + b"\n")
            return
        lines = render_list(names, classes, width) if name is None else render_page(name, classes[0], width)
        sink.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
