"""``kproxy filters``: the filters there are, and the reference of one."""

import shutil

import click

from kproxy.cli.options import complete_filters, form_option, json_page
from kproxy.filters.loading import filter_class, filter_names
from kproxy.filters.reference import described, render_list, render_page
from kproxy.pipeline.sink import Sink

WIDEST = 120


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_filters)
@form_option()
def filters(name: str | None, form: str) -> None:
    """List the filters, or show one and its options.

    \b
    kproxy filters
    kproxy filters audit
    kproxy filters mypackage.module:MyFilter

    A filter is used by its name in the configuration (kproxy check --help shows where), or by its class, as
    mypackage.module:MyFilter. kproxy/filters/__init__.py is the guide to writing one.

    \b
    filters:
    - use: audit     # who administers what: a JSON line each, written before
                     # the response leaves
      with: {file: {path: /var/log/kproxy/audit.jsonl}}
    - use: deny      # rules in CEL, answered with Kafka's own error
      with:
        rules:
        - when: 'apiName == "DeleteTopics" && principal != "admin"'
          api_name: [DeleteTopics]
    - use: mask      # fields of records, hidden from consumers
      with: {rules: [{topics: [customers-*], fields: ["$.email"]}]}
    - use: throttle  # bytes and requests per second, as quotas of brokers
      with: {limits: [{by: client_id, match: batch-*, fetch_bytes: 10MB}]}
    - use: telemetry # what clients measure of themselves (KIP-714), at /metrics
      with: {push_interval: 1m}
    """
    names = [name] if name is not None else filter_names()
    classes = [filter_class(each) for each in names]
    width = min(shutil.get_terminal_size((100, 24)).columns, WIDEST)
    with Sink(None, live=False) as sink:
        if form == "json":
            data = [described(*each) for each in zip(names, classes, strict=True)]
            sink.write(json_page(data if name is None else data[0]))
            return
        lines = render_list(names, classes, width) if name is None else render_page(name, classes[0], width)
        sink.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
