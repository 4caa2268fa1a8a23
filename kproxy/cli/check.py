"""``kproxy check``: every mistake of a configuration file with its place, or what it would run."""

import json
from typing import Annotated

import typer

from kproxy.config.reading import read_config
from kproxy.config.schema import config_schema
from kproxy.config.summary import render_summary
from kproxy.errors import UsageError


def check(
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="Configuration of kproxy run (YAML).")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the file instead, for editors.")
    ] = False,
) -> None:
    """Check a configuration: names, types, values, ports, files, certificates, filters.

    Exit code 0 and what would run, or 2 and every mistake as FILE:LINE:COLUMN: PATH: what is wrong.

    \b
    kproxy check kproxy.yaml
    kproxy check --schema > kproxy.schema.json
    """
    if schema:
        print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    elif file is None:
        raise UsageError("no FILE to check; see kproxy check --help")
    else:
        print("\n".join([f"{file}: no mistakes", *render_summary(read_config(file))]))
