"""``kproxy open``: captures, decoded logs and tables in the browser."""

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.endings import DONE
from kproxy.cli.options import KEYLOG, SEPARATE, pop_schemas, schema_options, source_path
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.pipeline.run import Options

if TYPE_CHECKING:
    from kproxy.page.store import Store

HOST = "127.0.0.1"


@click.command("open")
@click.argument("sources", metavar="SOURCE...", nargs=-1, type=source_path)
@click.option(
    "--port", metavar="PORT", type=click.IntRange(0, 65535), default=0, help="Listen here; by default any port."
)
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@click.option(
    "--records",
    is_flag=True,
    help="Of captures: show the records of all topics, not only of Kafka's internal ones. Logs show theirs.",
)
@schema_options
@click.option(
    "--memory",
    metavar="MIB",
    type=click.IntRange(16, 1 << 20),
    default=256,
    show_default=True,
    help="Keep so much of captures and logs; the oldest exchanges leave.",
)
@click.option("--spill", metavar="DIR", type=Path, help="Keep the exchanges that leave in a file here.")
@SEPARATE
@KEYLOG
def open_(
    sources: tuple[Path, ...],
    port: int,
    no_browser: bool,
    records: bool,
    memory: int,
    spill: Path | None,
    separate: bool,
    keylog: Path | None,
    **others: Any,
) -> int:
    """Open captures, decoded logs or tables in the browser.

    SOURCE is a capture (pcap or pcapng, plain, gzip or zstd), a folder of them, which are one capture, a decoded log, or a
    directory of tables (kproxy decode --format parquet). "-" is standard input: what comes is shown as it comes.

    \b
    kproxy open trace.pcapng
    kproxy open --records trace.pcapng
    kproxy open tables/
    kproxy open --port 8080 --no-browser kafka.jsonl
    tcpdump -i any -U -w - tcp port 9092 | kproxy open -

    Only this machine can ask, and only with the token in the address that is
    printed. Credentials are in no answer. Ctrl-C ends it.

    \b
    Exit status:
      0  done, by Ctrl-C
      1  the port is in use
      2  wrong usage: a source that cannot be read
    """
    from kproxy.analyses.duck import check_available  # noqa: PLC0415 - heavy, and an extra

    check_available(extra="page")
    from kproxy.page.server import keep_large_blocks_apart, open_sources  # noqa: PLC0415 - needs what was just looked for

    if not sources:
        raise UsageError("name a capture, a decoded log or a directory of tables: kproxy open trace.pcapng")
    if spill is not None and not spill.is_dir():
        raise UsageError(f"{spill} is no directory")
    keep_large_blocks_apart()
    store = open_sources(
        sources,
        Options(keylog=keylog, records=records, schemas=pop_schemas(others, records=records), contain=(Exception,)),
        most=memory << 20,
        spill=spill,
        separate=separate,
    )
    for note in getattr(store, "notes", ()):
        print(f"kproxy: {printable(note, 400)}", file=sys.stderr)
    try:
        _serve(store, port, browse=not no_browser)
    finally:
        store.close()
    return DONE


def _serve(store: "Store", port: int, *, browse: bool) -> None:
    from kproxy.page.server import page_app, serve  # noqa: PLC0415 - as above
    from kproxy.proxy.network.listening import listen_for_pages  # noqa: PLC0415 - as above
    from kproxy.proxy.supervisor.browser_guard import new_token  # noqa: PLC0415 - as above

    token, once = new_token(), new_token() if browse else ""
    try:
        listening = listen_for_pages(HOST, port)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: choose another --port", f"{HOST}:{port}") from None
    with listening as listener:
        port = listener.getsockname()[1]
        address = f"http://{HOST}:{port}/?token="

        def ready() -> None:
            print(f"kproxy: {printable(store.name, 200)} is at {address}{token}", flush=True)
            if browse:  # with an address that works only once, as other users can see the arguments of programs
                _browse(address + once, port)

        serve(page_app(store, token, once=once), listener, ready)


def _browse(address: str, port: int) -> None:
    """Open the address in the browser, or print how to reach it."""
    import webbrowser  # noqa: PLC0415 - only here

    if "SSH_CONNECTION" in os.environ:
        here = f"{os.environ.get('USER', 'USER')}@{socket.gethostname()}"
        print(
            f"kproxy: to open it where you are, run there: ssh -L {port}:{HOST}:{port} {printable(here, 200)}",
            file=sys.stderr,
        )
        return
    shown = sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    try:  # without a display there are only terminal browsers, which run no scripts
        opened = bool(shown) and webbrowser.open(address)
    except webbrowser.Error:
        opened = False
    if not opened:
        print("kproxy: no browser could be started; open the address yourself", file=sys.stderr)
