"""``kproxy check``: every mistake of a configuration file with its place, or what it would run."""

import json

import click

from kproxy.config.files import filter_warnings
from kproxy.config.reading import read_config
from kproxy.config.schema import config_schema
from kproxy.config.showing import render_summary
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
    mistake as FILE:LINE:COLUMN: PATH: what is wrong, with exit status 2. Warnings do not change the exit status. The schema
    describes every setting. Sizes and times may have units: 64KiB, 10MB; 500ms, 10s, 5m, 1h. A file of one cluster:

    \b
    clusters:
    - name: orders
      listen: 0.0.0.0:19092      # ":19092": IPv6 too
      bootstrap: [kafka-1:9092, kafka-2:9092]
      addresses:
        mode: port               # or sni (one port, names in TLS), transparent
                                 # (redirected clients), fixed (not rewritten)
        node_ids: ["1-3"]        # bound before Metadata was seen: needed where
                                 # clients must log in
        advertise: kafka.example.com   # behind a load balancer: clients reach
        advertise_port: 30000    # brokers 1 to 3 at its ports 30001 to 30003,
                                 # which kproxy serves on 19094 to 19096
      filters:                   # kproxy filters lists them
      - use: audit
        with: {file: {path: /var/log/kproxy/audit.jsonl}}
    workers: 2
    timeouts: {idle: 12m, drain: 30s}
    analysis:
      log: {path: kafka.jsonl, most_size: 100MiB, most_age: 1h, keep: 10}
    traces: {otlp: "http://collector:4318", sample: 0.01, api_name: [Produce]}

    Traces are spans of OpenTelemetry, in the trace of the client where the records that it produces have a traceparent or b3
    header. They need pip install 'kproxy-kafka[otlp]'. The analyzer sends them, so that traffic does not wait for a collector;
    kproxy_spans_total says what became of them.
    """
    if schema:
        print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    elif file is None:
        raise UsageError("no FILE to check; see kproxy check --help")
    else:
        config = read_config(file)
        warnings = [f"{file}: warning: {path}: {message}" for path, message in filter_warnings(config)]
        print("\n".join([f"{file}: no mistakes", *warnings, *render_summary(config)]))
