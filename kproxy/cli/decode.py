"""``kproxy decode``: captures and decoded logs to readable text, JSON lines, a capture in the clear, or tables."""

import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeAlias

import click

from kproxy.capture import Capture, read_flows
from kproxy.capture.tls import KeyLog, KeyLogFile, check_available
from kproxy.cli.decoded_log import DecodedLog, open_input, show_log
from kproxy.cli.progress import progress
from kproxy.cli.summary import Summary
from kproxy.errors import CaptureError, UsageError
from kproxy.output.from_jsonl import LogReader
from kproxy.output.opening import Opener
from kproxy.output.where import Where, read_for
from kproxy.pipeline.flow_reader import Pipeline
from kproxy.pipeline.late_names import LateNames
from kproxy.pipeline.line_output import Format, Lines, Output, Render, open_sink, renderer
from kproxy.pipeline.sink import check_output
from kproxy.pipeline.tls_flow import Secrets
from kproxy.protocol.embedded import Viewers
from kproxy.session import Event, Exchange

STDIN = Path("-")
DAMAGED, INTERRUPTED = 3, 130  # exit status, see app.py

Begin: TypeAlias = Callable[[ExitStack, Opener], Output]


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=Path)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([known.value for known in Format]),
    default=Format.TEXT.value,
    show_default=True,
    help="text: one line per exchange. jsonl: one JSON object per exchange. pcapng: a capture, decrypted. parquet: tables.",
)
@click.option("-v", "--verbose", is_flag=True, help="With text: every field of the exchange below its line.")
@click.option("--records", is_flag=True, help="Show the records of all topics, not only of Kafka's internal ones.")
@click.option("--bodies", "json_bodies", is_flag=True, help="With parquet: add both bodies of each exchange, as JSON.")
@click.option("--where", metavar="CEL", help="Show only exchanges that match this condition on the fields of jsonl.")
@click.option("--keylog", metavar="FILE", type=Path, help="Session keys of TLS (NSS key log); see above.")
@click.option("--anonymize", is_flag=True, help="With pcapng: replace names, addresses and records; see above.")
@click.option(
    "--anonymize-key", metavar="FILE", type=Path, help="Anonymize with this key: equal pseudonyms in every run."
)
@click.option(
    "-o", "--output", metavar="PATH", type=Path, help="Write to this file; with parquet, into this directory."
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress bar and no summary.")
def decode(
    paths: tuple[Path, ...],
    format_name: str,
    verbose: bool,
    records: bool,
    json_bodies: bool,
    where: str | None,
    keylog: Path | None,
    anonymize: bool,
    anonymize_key: Path | None,
    output: Path | None,
    quiet: bool,
) -> int:
    """Decode captures of Kafka traffic.

    FILE is a capture: pcap or pcapng, plain, gzip or zstd; - is standard input. Kafka is found by content, on any port.
    Decoded logs (what --format jsonl and kproxy run --log write) are read too, for text and jsonl.
    Credentials are withheld from every output. The summary goes to standard error.

    \b
    kproxy decode trace.pcapng
    kproxy decode -v --records trace.pcap.gz
    kproxy decode --where 'apiName == "Fetch" && latencyMs > 500.0' trace.pcapng
    kproxy decode --where 'errors.exists(e, e.code == 16)' trace.pcapng
    kproxy decode -v --where 'size(errors) > 0' kafka.*.jsonl kafka.jsonl
    tcpdump -i any -U -w - tcp port 9092 | kproxy decode --format jsonl -
    kproxy decode --keylog keys.log trace.pcapng
    kproxy decode --format parquet -o tables trace.pcapng
    kproxy decode --format pcapng -o clear.pcapng trace.pcapng
    kproxy decode --format pcapng --anonymize -o report.pcapng trace.pcapng

    Parquet makes a folder for each table: connections, exchanges, record_batches,
    offsets and, with --records, records. Tables that are there are replaced.

    TLS 1.2 and 1.3 are decrypted with the session keys: those in the pcapng
    itself (Decryption Secrets Block), or a key log that a client or the broker
    writes while it talks:

    \b
    Python      ssl.SSLContext.keylog_filename; or SSLKEYLOGFILE=FILE in the
                environment, with contexts of ssl.create_default_context
    Java        clients and brokers: -javaagent:extract-tls-secrets.jar=FILE
                or -javaagent:jSSLKeyLog.jar=FILE
    librdkafka  has no setting for it; where OpenSSL is a shared library:
                LD_PRELOAD=libsslkeylog.so SSLKEYLOGFILE=FILE; else the
                broker's keys do
    Go          tls.Config.KeyLogWriter
    Node.js     node --tls-keylog=FILE

    --format pcapng writes Kafka in the clear, on connections of its own making
    between the same addresses, with the line of text as a comment on each frame.
    --anonymize replaces addresses, hosts, client ids, topics, groups, members,
    users, record keys and values and all other text by pseudonyms of the same
    length; the key to them is made anew for each run. APIs, versions, sizes,
    counts, offsets, error codes, times, ports, names of settings and of client
    software stay. Only compressed records may change their size.

    \b
    Exit status:
      0  decoded
      1  the output cannot be written
      2  wrong usage, or a file that is neither capture nor decoded log
      3  a capture is damaged: what comes before the damage was decoded;
         or a decoded log: the lines that are whole were
    130  interrupted; what came before was decoded
    """
    files, output_format = list(paths), Format(format_name)
    _check_options(output_format, output, verbose=verbose, records=records, json_bodies=json_bodies)
    anonymize = anonymize or anonymize_key is not None
    if anonymize and output_format is not Format.PCAPNG:
        raise UsageError(f"--anonymize is for --format pcapng; {output_format} shows what is there")
    condition = None if where is None else Where(where)
    wants_bytes = _wants_bytes(output_format, records=records)
    _check_inputs(files, wants_bytes)
    on_terminal = output is None and sys.stdout.isatty()
    if output_format is Format.PARQUET:
        begin = _tables(output, bodies=json_bodies, records=records)
    elif output_format is Format.PCAPNG:
        begin = _capture(output, files, anonymize=anonymize, key_file=anonymize_key)
    else:
        begin = _lines(output, files, renderer(output_format, verbose=verbose, on_terminal=on_terminal))
    secrets = Secrets(None if keylog is None else _open_keylog(keylog))
    with ExitStack() as stack:
        stack.enter_context(closing(secrets))
        opener = Opener(Viewers() if records else None)
        out = begin(stack, opener)
        run = Run(condition, out, secrets, opener, wants_bytes)
        for file in files:
            run.decode(file, show_progress=not (on_terminal or quiet))
    if not quiet:
        run.say_all()
    for damage in run.damages:
        print(f"kproxy: {damage}", file=sys.stderr)
    return run.status


# The three outputs: each checks what was asked for, and opens it when it is begun. Two are loaded only where they are wanted.


def _tables(output: Path | None, *, bodies: bool, records: bool) -> Begin:
    from kproxy.pipeline.parquet_output import ParquetOutput, check_parquet  # noqa: PLC0415

    directory = check_parquet(output)
    return lambda stack, _: stack.enter_context(ParquetOutput(directory, bodies=bodies, records=records))


def _capture(output: Path | None, files: list[Path], *, anonymize: bool, key_file: Path | None) -> Begin:
    from kproxy.cli.capture_again import capture_again, rewriter  # noqa: PLC0415

    check_output(output, files)
    how = rewriter(anonymize=anonymize, key_file=key_file)
    return lambda stack, _: stack.enter_context(capture_again(stack.enter_context(open_sink(output, files)), how))


def _lines(output: Path | None, files: list[Path], render: Render) -> Begin:
    check_output(output, files)
    return lambda stack, opener: Lines(render, stack.enter_context(open_sink(output, files)), opener)


def _check_options(
    output_format: Format, output: Path | None, *, verbose: bool, records: bool, json_bodies: bool
) -> None:
    """Raise UsageError for options that do not go together."""
    if records and (output_format is Format.PCAPNG or (output_format is Format.TEXT and not verbose)):
        raise UsageError("--records is for -v, jsonl or parquet; a line an exchange has no room for them")
    if verbose and output_format is not Format.TEXT:
        raise UsageError(f"-v is for --format text; {output_format} always has everything")
    if json_bodies and output_format is not Format.PARQUET:
        raise UsageError("--bodies is for --format parquet; jsonl and -v always have them")
    if output_format is Format.PCAPNG and output is None and sys.stdout.isatty():
        raise UsageError("--format pcapng is not for a terminal; give -o FILE")


class Run:
    """One call of ``kproxy decode``: captures one after the other into one output, counted together."""

    def __init__(
        self, condition: Where | None, out: Output, secrets: Secrets, opener: Opener, wants_bytes: str | None
    ) -> None:
        self.summary = Summary()
        self.damages: list[str] = []
        self.interrupted = False
        self._condition = condition
        self._out = out
        self._opener = opener
        self._secrets = secrets
        self._keylog = KeyLog(secrets.more)
        self._wants_bytes = wants_bytes
        self._log_reader = LogReader()
        self._numbers_from = 0
        self._passed_over: dict[str, int] = {}

    @property
    def status(self) -> int:
        """The exit status."""
        return INTERRUPTED if self.interrupted else DAMAGED if self.damages else 0

    def decode(self, file: Path, *, show_progress: bool) -> None:
        """Decode one capture, or show one decoded log. Raises UsageError when it is neither; damage further in is kept for later.

        An interrupt (Ctrl-C) ends the capture there: what is in flight is told as at any other end. Captures after it
        are not read.
        """
        if self.interrupted:
            return
        with _open(file, self._wants_bytes) as capture, progress(file, capture, wanted=show_progress) as advance:
            if isinstance(capture, DecodedLog):
                self._show_log(capture, advance)
                return
            self._secrets.read_from(capture)
            self._out.begin(file)
            names = LateNames(self._show, self._out.ended, waits=file != STDIN and file.is_file())
            pipeline = Pipeline(
                read_flows(capture), numbers_from=self._numbers_from, keylog=self._keylog, on_end=names.end
            )
            try:
                for event in pipeline:
                    self._take(event, names)
                    if advance is not None:
                        advance()
            except KeyboardInterrupt:
                self.interrupted = True
                for event in pipeline.close():
                    self._take(event, names)
            names.close()
            self._numbers_from += pipeline.flows
            if capture.damage is not None:
                self.damages.append(str(capture.damage))
            for name, count in capture.flows.passed_over.items() if capture.flows is not None else ():
                self._passed_over[name] = self._passed_over.get(name, 0) + count

    def _show_log(self, log: DecodedLog, advance: Callable[[], None] | None) -> None:
        assert isinstance(self._out, Lines)  # the others want bytes
        try:
            show_log(log, self._log_reader, self._condition, self.summary, self._out, advance)
        except KeyboardInterrupt:
            self.interrupted = True
        self.damages += log.damages

    def _take(self, event: Event, names: LateNames) -> None:
        self.summary.count(event)
        names.take(event)

    def _show(self, event: Event) -> None:
        condition = self._condition
        self._opener.learn(event)
        bodies, shown = None, True
        if condition is not None:
            bodies = read_for(condition, event, self._opener)
            shown = condition(event, bodies)
        self.summary.shown += shown and isinstance(event, Exchange)
        self._out.take(event, bodies, shown=shown)

    def say_all(self) -> None:
        """The summary, on standard error."""
        for line in self.summary.lines(self._passed_over):
            print(line, file=sys.stderr)
        if self.summary.encrypted and self._secrets.file_given:
            taken, odd = self._keylog.lines, self._keylog.passed_over
            print(f"  in the key log are {taken:,} secrets; {odd:,} lines of it are none", file=sys.stderr)
        for note in self._condition.notes if self._condition is not None else ():
            print(note, file=sys.stderr)


def _wants_bytes(output_format: Format, *, records: bool) -> str | None:
    """The option for which a decoded log will not do; None where it does."""
    if output_format in (Format.PCAPNG, Format.PARQUET):
        return f"--format {output_format}"
    return "--records" if records else None


def _check_inputs(files: list[Path], wants_bytes: str | None) -> None:
    if files.count(STDIN) > 1:
        raise UsageError("standard input can be read only once: give one -")
    for file in files:
        _check_input(file, wants_bytes)


def _check_input(file: Path, wants_bytes: str | None) -> None:
    """Raise UsageError for what cannot be read or is no capture, before any output is touched."""
    if file == STDIN:
        return
    if file.is_dir():
        raise UsageError(f"{file} is a directory; give captures, for instance {file / '*.pcap'}")
    if not file.exists():
        raise UsageError(f"{file}: there is no such file")
    if file.is_file():  # a pipe can be opened only once
        _open(file, wants_bytes).close()


def _open_keylog(keylog: Path) -> KeyLogFile:
    check_available()
    return KeyLogFile(keylog)


def _open(file: Path, wants_bytes: str | None) -> Capture | DecodedLog:
    try:
        found = open_input(file)
    except CaptureError as error:
        raise UsageError(str(error)) from error
    if isinstance(found, DecodedLog) and wants_bytes is not None:
        found.close()
        raise UsageError(
            f"{found.name} is a decoded log, and has no bytes of frames and records: {wants_bytes} wants captures"
        )
    return found
