"""``kproxy run``: options to a supervisor. It takes this process over, so that Typer is not held in memory."""

from typing import Annotated

import typer

from kproxy.config.reading import Options, config_from_options
from kproxy.proxy.supervisor.processes import become_supervisor


def run(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where clients come to; :PORT for every interface.")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[,...]", help="Brokers of the cluster: one or a few.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("-c", "--config", metavar="FILE", help="Configuration (YAML); see kproxy check.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST", help="Host that clients are told; otherwise the one they came to.")
    ] = None,
    admin: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Metrics and health (127.0.0.1:9644); off: none.")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes that forward (1).")] = None,
    no_analysis: Annotated[
        bool, typer.Option("--no-analysis", help="Forward only: no decoded log, no captures.")
    ] = False,
    log: Annotated[str | None, typer.Option(metavar="PATH", help="Decoded log: JSON lines, rotated.")] = None,
    capture: Annotated[
        str | None, typer.Option(metavar="PATH", help="pcapng of the decrypted traffic, rotated.")
    ] = None,
    outlive: Annotated[
        bool, typer.Option("--outlive", help="Asked to stop, serve on until no client is connected (sidecar).")
    ] = False,
) -> None:
    """Forward Kafka traffic, and understand it.

    \b
    kproxy run --listen :19092 --bootstrap kafka:9092
    kproxy run -c kproxy.yaml

    SIGTERM or Ctrl-C lets requests in flight be answered, then ends; twice: at once. SIGHUP, or a changed file, reads the
    configuration again; one with mistakes is told of and the one before stays.
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
    )
    config_from_options(options)  # mistakes are told here
    become_supervisor(options)
