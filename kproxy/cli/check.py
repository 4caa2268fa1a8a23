"""``kproxy check``: every mistake of a configuration file with its place, or what it would run."""

import json

import click

from kproxy.config.reading import read_config
from kproxy.config.schema import config_schema
from kproxy.config.summary import render_summary
from kproxy.errors import UsageError


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file, for editors.")
def check(file: str | None, schema: bool) -> None:
    """Check a configuration file of kproxy run.

    \b
    kproxy check kproxy.yaml
    kproxy check --schema > kproxy.schema.json

    Checks names, types, values, ports, files, certificates and filters. Shows what the configuration would run, or every
    mistake as FILE:LINE:COLUMN: PATH: what is wrong, with exit status 2.
    """
    if schema:
        print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    elif file is None:
        raise UsageError("no FILE to check; see kproxy check --help")
    else:
        print("\n".join([f"{file}: no mistakes", *render_summary(read_config(file))]))
