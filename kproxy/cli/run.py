"""``kproxy run``: check the options, then replace this process by the supervisor, which does not need Click in memory."""

import click

from kproxy.config.reading import Options, config_from_options
from kproxy.proxy.supervisor.processes import become_supervisor


@click.command()
@click.option("--listen", metavar="HOST:PORT", help="Where clients connect; :PORT for every interface.")
@click.option("--bootstrap", metavar="HOST:PORT[,...]", help="One or more brokers of the cluster.")
@click.option("-c", "--config", metavar="FILE", help="Configuration (YAML) in place of these two; see kproxy check.")
@click.option("--advertise", metavar="HOST", help="Host to advertise to clients; otherwise the one they connected to.")
@click.option("--admin", metavar="HOST:PORT", help="Serve metrics and health here (127.0.0.1:9644); off: not at all.")
@click.option("--workers", metavar="N", type=int, help="Number of processes that forward (1).")
@click.option("--no-analysis", is_flag=True, help="Only forward: no decoded log, no captures.")
@click.option("--log", metavar="PATH", help="Write the decoded log here: JSON lines, rotated.")
@click.option("--capture", metavar="PATH", help="Write a capture of the decrypted traffic here: pcapng, rotated.")
@click.option("--outlive", is_flag=True, help="When stopped, serve until no client is connected (sidecar).")
@click.option(
    "--fault", metavar="WORDS", multiple=True, help="Fail on purpose: 'api=Produce error=... times=2'; repeatable."
)
@click.option("--reload-filters", is_flag=True, help="Load filters again when their files change: for development.")
def run(
    listen: str | None,
    bootstrap: str | None,
    config: str | None,
    advertise: str | None,
    admin: str | None,
    workers: int | None,
    no_analysis: bool,
    log: str | None,
    capture: str | None,
    outlive: bool,
    fault: tuple[str, ...],
    reload_filters: bool,
) -> None:
    """Forward Kafka traffic, and analyze it.

    \b
    kproxy run --listen :19092 --bootstrap kafka:9092
    kproxy run -c kproxy.yaml
    kproxy run --listen :19092 --bootstrap kafka:9092 --fault leader_moved

    SIGTERM or Ctrl-C: answer the requests in flight, then end; a second one ends at once. SIGHUP or a change of the file
    loads the configuration again; if it has mistakes, they are logged and the previous configuration stays.
    """
    options = Options(
        file=config,
        listen=listen,
        bootstrap=[part.strip() for part in (bootstrap or "").split(",") if part.strip()],
        advertise=advertise,
        admin=admin,
        analysis=not no_analysis,
        workers=workers,
        outlive=outlive,
        log=log,
        capture=capture,
        faults=list(fault),
        reload_filters=reload_filters,
    )
    config_from_options(options)  # raises ConfigError
    become_supervisor(options)
