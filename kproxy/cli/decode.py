"""``kproxy decode``: captures and decoded logs to text, JSON lines, an unencrypted capture, or tables.

``--follow`` reads a file that another process is writing by name, as ``tail -F`` does: when the file was rotated (another file
has its name) the new one is read on, and when it was cut, from its beginning. Parts of a decoded log, and of a capture in pcapng,
continue each other; a pcap file does not.
"""

import os
import sys
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from kproxy.capture.reader import open_raw
from kproxy.cli.endings import DAMAGED, DONE, INTERRUPTED
from kproxy.cli.formats import OUTPUTS, STANDARD_INPUT, SUFFIXES, Format, OutputOptions, format_of
from kproxy.cli.options import (
    KEYLOG,
    SEPARATE,
    pop_condition,
    pop_schemas,
    schema_options,
    selection_options,
    source_path,
)
from kproxy.cli.progress import progress
from kproxy.errors import UsageError
from kproxy.output.times import Clock
from kproxy.pipeline.decoded_log import DecodedLog, open_named
from kproxy.pipeline.inputs import Files, Inputs, check_standard_input, find_inputs
from kproxy.pipeline.line_output import ListedLines
from kproxy.pipeline.output import Output
from kproxy.pipeline.run import Options as RunOptions
from kproxy.pipeline.run import Run
from kproxy.pipeline.summary import Summary

POLL_S = 0.1  # between two looks for more
CONTINUING = (b"{", b"\x0a\x0d\x0d\x0a")  # first bytes of a decoded log, and of a section of pcapng
STANDARD_OUTPUT = Path("-")
# Bytes of a capture for each process unless --jobs says otherwise. Each process reads all packets, so that two need half as much
# CPU again as one (140 MB of small exchanges: 4.7 and 3.2 s) for a seventh of the time (2.9 and 3.4 s).
JOB_SIZE = 256 * 1024 * 1024
MOST_JOBS = 32


@click.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=source_path)
@SEPARATE
@click.option(
    "--format",
    "format_name",
    type=click.Choice([known.value for known in Format]),
    help="text: one line per exchange. jsonl: one JSON object per exchange. pcapng: a capture, decrypted. parquet: tables. "
    "By default what the suffix of -o says (.txt, .jsonl, .pcapng, .parquet); without a suffix text.",
)
@click.option("-v", "--verbose", is_flag=True, help="With text: every field of the exchange below its line.")
@click.option("--records", is_flag=True, help="Show the records of all topics, not only of Kafka's internal ones.")
@schema_options
@click.option("--bodies", is_flag=True, help="With parquet: add both bodies of each exchange, as JSON.")
@selection_options
@click.option(
    "-n", "--count", "most", metavar="COUNT", type=click.IntRange(min=1), help="With text and jsonl: end after COUNT."
)
@click.option("-f", "--follow", is_flag=True, help="Read on as the last FILE grows or is rotated, until Ctrl-C.")
@click.option("--utc", is_flag=True, help="With text: show times in UTC; otherwise in local time.")
@click.option("--wide", is_flag=True, help="With text: do not cut lines to the width of the terminal.")
@KEYLOG
@click.option("--anonymize", is_flag=True, help="With pcapng: replace names, addresses and records.")
@click.option(
    "--anonymize-key", metavar="FILE", type=Path, help="Anonymize with this key: equal pseudonyms in every run."
)
@click.option(
    "--withhold-records",
    "withholds_records",
    is_flag=True,
    help="With pcapng: write zeros for keys, values and headers of records.",
)
@click.option(
    "-o", "--output", metavar="PATH", type=Path, help="Write to this file; with parquet, into this directory."
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Decode a capture in N processes, for text and jsonl; by default in one for each 256 MB, and at most one for each core.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress bar and no summary.")
def decode(
    paths: tuple[Path, ...],
    format_name: str | None,
    output: Path | None,
    follow: bool,
    utc: bool,
    keylog: Path | None,
    jobs: int | None,
    separate: bool,
    **others: Any,
) -> int:
    """Decode captures of Kafka traffic.

    FILE is a capture: pcap or pcapng, plain, gzip or zstd; - is standard input. Kafka is found by content, on any port.
    Several files, folders and patterns are one capture: packets are read in the order of their times, connections go on from
    file to file, and what several files have counts once.
    Decoded logs (what --format jsonl and kproxy run --log write) are read too, for text, jsonl and parquet; a damaged line is
    reported and skipped. Credentials are withheld from every output: SASL tokens, HMACs of delegation tokens, salts and
    passwords of SCRAM, values of settings and of JSON keys that hold passwords. Records are shown only with --records: as
    text, JSON or hex, or by their schemas (kproxy help schemas).

    \b
    kproxy decode trace.pcapng
    kproxy decode -v --records trace.pcap.gz
    kproxy decode --api Produce --topic orders -n 20 trace.pcapng
    kproxy decode --follow --client billing kafka.jsonl
    kproxy decode --where 'apiName == "Fetch" && latencyMs > 500.0' trace.pcapng
    kproxy decode --where 'errors.exists(e, e.code == 16)' trace.pcapng
    kproxy decode -v --where 'size(errors) > 0' kafka.*.jsonl kafka.jsonl
    tcpdump -i any -U -w - tcp port 9092 | kproxy decode --format jsonl -
    kproxy decode trace.pcap0 trace.pcap1 trace.pcap2
    kproxy decode --keylog keys.log trace.pcapng
    kproxy decode --format parquet -o tables trace.pcapng
    kproxy decode -o clear.pcapng trace.pcapng
    kproxy decode --anonymize -o report.pcapng trace.pcapng

    A line of text has the time, client and broker, latency, API and version,
    client id, then what matters: errors, topics, groups, sizes. On a terminal,
    lines are cut to its width unless --wide is given. -v adds every field of both
    sides, special values by name, what is inside bytes and records fields
    (subscriptions and assignments of consumers, Streams and Connect, client
    telemetry, forwarded requests, SASL steps, records of Kafka's own topics), and
    for each error what a client should do.

    kproxy help captures says which networks and tunnels are read, how to get the
    session keys of TLS, how lines are sorted, how --follow meets rotation, and
    what --format pcapng and --anonymize write.

    --api, --topic, --client, --group and --where select exchanges; all that are
    given must match. The first four may be repeated, and then one of their values
    has to match; topics, clients and groups may have * and ?. A topic or group
    matches if the request or the response names it.

    --where is a condition in CEL (https://cel.dev). kproxy help conditions lists
    the fields: those of jsonl, where request and response are Kafka's own JSON, and
    topics, groups and principal, as in '"orders" in topics'.

    --format parquet (pip install 'kproxy-kafka[parquet]') writes a folder for each
    table: connections, exchanges, record_batches, offsets, group_events,
    topic_activity, errors, partition_states, share_deliveries and, with --records,
    records. Existing tables are replaced. _kproxy.json is written last: a directory
    without it is not complete. The metadata of the files, and
    kproxy sql TABLES "DESCRIBE exchanges", say what the columns are.

    \b
    Exit status:
      0  decoded
      1  the output cannot be written
      2  wrong usage, or a file that is neither capture nor decoded log
      3  a capture is damaged: everything before the damage was decoded;
         or a decoded log: all complete lines were
    130  interrupted; everything before was decoded
    """
    names, output_format = list(paths), format_of(output, format_name, SUFFIXES, Format.TEXT)
    where = pop_condition(others)
    live = follow or any(map(is_live, names))
    schemas = pop_schemas(
        others, records=others["records"] or others["anonymize"] or others["anonymize_key"] is not None
    )
    options = OutputOptions(
        output_format, output, names, live=live, clock=Clock(local=not utc), schemas=schemas, **others
    )
    run = Run(RunOptions(where=where, keylog=keylog, records=options.records, schemas=schemas))
    _check_options(options, selects_records=run.condition is not None and "record" in run.condition.names)
    inputs = _find(names, _needs_captures(options), follow=follow, separate=separate)
    options = replace(options, inputs=[*paths, *(path for files in inputs.files for path in files.paths)])
    open_output = OUTPUTS[output_format](options)
    summary = Summary()
    with run:
        lines = open_output()
        run.add_output(lines)
        run.add_output(summary)
        decoder = _Decoder(run, lines, options, jobs)
        for files in inputs.files:
            decoder.decode(files, follow=follow and files is inputs.files[-1])
    if options.most is not None:
        summary.shown = min(summary.shown, options.most)
    damages = [*inputs.damages, *run.damages]
    if not options.quiet:
        _print_summary(run, summary)
    faults = [] if run.schemas is None else run.schemas.faults
    for sentence in [*inputs.notes, *run.notes, *faults, *damages]:
        print(f"kproxy: {sentence}", file=sys.stderr)
    return INTERRUPTED if run.interrupted and not follow else DAMAGED if damages else DONE


def _check_options(options: OutputOptions, *, selects_records: bool) -> None:
    chosen, is_text = options.output_format, options.output_format is Format.TEXT
    if options.records and not selects_records and (chosen is Format.PCAPNG or (is_text and not options.verbose)):
        raise UsageError("--records is for -v, jsonl or parquet; a line of text has no room for them")
    if options.verbose and not is_text:
        raise UsageError(f"-v is for --format text; {chosen} always has everything")
    if options.bodies and chosen is not Format.PARQUET:
        raise UsageError("--bodies is for --format parquet; jsonl and -v always have them")
    if chosen is Format.PCAPNG and options.on_terminal:
        raise UsageError("--format pcapng is not for a terminal; use -o FILE")
    if chosen is Format.PARQUET and options.path == STANDARD_OUTPUT:
        raise UsageError("--format parquet writes a directory, not to standard output; use -o DIR")
    if options.withholds_records and chosen is not Format.PCAPNG:
        raise UsageError(
            f"--withhold-records is for --format pcapng; {chosen} has no records unless --records is given"
        )
    if options.anonymizes and chosen is not Format.PCAPNG:
        raise UsageError(f"--anonymize is for --format pcapng; {chosen} shows the traffic as it is")
    if options.most is not None and chosen not in (Format.TEXT, Format.JSONL):
        raise UsageError(f"-n is for --format text and jsonl; {chosen} has all that is selected")
    if (options.wide or not options.clock.local) and not is_text:
        raise UsageError(f"--wide and --utc are for --format text; {chosen} never cuts lines, and has times in UTC")


class _Decoder:
    """Decodes one source after the other to the outputs of a run.

    Args:
        output: of the events, one of the outputs.
        jobs: --jobs.
    """

    def __init__(self, run: Run, output: Output, options: OutputOptions, jobs: int | None) -> None:
        self._run = run
        self._output = output
        self._options = options
        self._jobs = jobs
        self._shows_progress = not (options.on_terminal or options.quiet)
        self._notes_waiting = not options.quiet

    def decode(self, files: Files, *, follow: bool) -> None:
        """Decode captures or decoded logs. Raises UsageError for a pipe that is neither; damage further in is kept for later.

        An interrupt (Ctrl-C) ends them there: requests in flight are written as at any other end. Sources after them are not
        read, nor any after the last line of -n.
        """
        if self._run.interrupted or self._is_full:
            return
        live = follow or is_live(files.path)
        if self._notes_waiting and files.path.is_fifo():
            print(f"kproxy: {files.path}: opens once a program writes to it", file=sys.stderr)
        if files.first_ns is not None:
            self._options.clock.start(files.first_ns)  # the date that lines omit, before processes of --jobs are forked
            number = _jobs_for(files, self._jobs) if self._options.most is None else 1
            if number > 1:
                from kproxy.cli.jobs import Progress, decode_in_parts  # noqa: PLC0415 - only for large captures

                shown = Progress()
                with progress(files, shown, wanted=self._shows_progress) as advance:
                    if decode_in_parts(self._run, files, number, shown, advance or (lambda: None)):
                        return
        with (
            open_named(files.path, GrowingFile(files.path)) if follow else files.open() as source,
            progress(files, source, wanted=self._shows_progress and not follow) as advance,
        ):
            if isinstance(source, DecodedLog):
                _check_log(files, _needs_captures(self._options))
            try:
                for _ in self._run.read(source, name=files.path.name, wait_for_names=not live):
                    if advance is not None:
                        advance()
                    if self._options.most is not None and self._is_full:
                        break
            except KeyboardInterrupt:
                self._run.interrupt()

    @property
    def _is_full(self) -> bool:
        return isinstance(self._output, ListedLines) and self._output.is_full


def is_live(file: Path) -> bool:
    """Whether a source is standard input, a pipe or a device, which may be written while it is read."""
    return file == STANDARD_INPUT or (file.exists() and not (file.is_file() or file.is_dir()))


def _jobs_for(files: Files, wanted: int | None) -> int:
    """How many processes shall decode files: as many as wanted, or by their size if that is None."""
    cores = min(len(os.sched_getaffinity(0)), MOST_JOBS)
    if wanted is not None:
        return min(wanted, 2 * cores)  # more processes only take more time
    return max(1, min(cores, sum(path.stat().st_size for path in files.paths) // JOB_SIZE))


def _print_summary(run: Run, summary: Summary) -> None:
    for line in summary.lines(run.packets_passed_over):
        print(line, file=sys.stderr)
    if summary.exchanges and not summary.shown:
        print("  kproxy report FILE --only map lists clients, topics and groups to select by", file=sys.stderr)
    if summary.encrypted and run.secrets.file_given:
        secrets, others = run.keylog.lines, run.keylog.passed_over
        print(f"  the key log has {secrets:,} secrets, and {others:,} other lines", file=sys.stderr)
    for note in run.condition.notes if run.condition is not None else ():
        print(f"--where was taken as false where it cannot be answered: {note}", file=sys.stderr)


def _needs_captures(options: OutputOptions) -> str | None:
    """Return the option that needs captures and cannot use a decoded log; None if there is none."""
    if options.output_format.needs_frames:
        return f"--format {options.output_format}"
    return "--records" if options.records else None


def _find(names: list[Path], needs_captures: str | None, *, follow: bool, separate: bool) -> Inputs:
    """Find what to decode, before any output is changed; the file that is followed is the last one, and read alone.

    Raises UsageError if there is nothing, or a decoded log where captures are needed.
    """
    check_standard_input(names)
    followed = names.pop() if follow else None
    inputs = find_inputs(names, separate=separate) if names else Inputs()
    for files in inputs.files:
        if files.are_logs:
            _check_log(files, needs_captures)
    if followed is not None:
        if followed.is_dir():
            raise UsageError(f"{followed} is a folder; --follow reads on in a file, the last one that is named")
        inputs.files.append(Files([followed]))
        if followed.is_file():
            open_named(followed).close()
    return inputs


def _check_log(files: Files, needs_captures: str | None) -> None:
    if needs_captures is not None:
        raise UsageError(
            f"{files.path} is a decoded log, which has no bytes of frames and records: {needs_captures} needs captures"
        )


class GrowingFile:
    """A file as a kproxy.capture.reader.RawFile whose reads wait for more bytes at its end.

    Args:
        path: the file.
        wait: called while there are no more bytes; it sleeps. If it raises, that ends the read.
    """

    def __init__(self, path: Path, wait: Callable[[], None] = lambda: time.sleep(POLL_S)) -> None:
        self._path = path
        self._wait = wait
        self._raw = open_raw(path)

    def readinto(self, buffer: memoryview, /) -> int | None:
        while not (count := self._raw.readinto(buffer)):
            replacement = self._replacement()
            if replacement is not None:
                count = self._raw.readinto(buffer)  # what was written between the last read and the rotation
                if count:
                    replacement.close()
                    return count
                if not os.pread(replacement.fileno(), 4, 0).startswith(CONTINUING):
                    replacement.close()
                    return 0
                self._raw.close()
                self._raw = replacement
                continue
            self._wait()
        return count

    def close(self) -> None:
        self._raw.close()

    def _replacement(self) -> FileIO | None:
        """Return the file that now has the name, if it is another one or was truncated; None if not, or while it is empty."""
        try:
            named, ours = self._path.stat(), os.fstat(self._raw.fileno())
            is_same = (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)
            if not named.st_size or (is_same and named.st_size >= self._raw.tell()):
                return None
            return open_raw(self._path)
        except OSError:  # between two files
            return None
