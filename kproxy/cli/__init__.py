"""The command line: one module per command, and one place that turns errors into sentences and exit codes.

    app.py            the table of commands, --version and --help, main(), Click's errors
    endings.py        how errors end a command; exit codes
    decode.py         kproxy decode: a Run of kproxy.pipeline on files; its options, exit codes and summary; --follow
    jobs.py           --jobs: a large capture in several processes
    formats.py        --format: the output of each format, and its options
    options.py        options of several commands: --api, --topic, --client, --group, --keylog; what a shell completes
    progress.py       the progress bar on a terminal
    report.py         kproxy report: what to read, the page in its form, exit status
    report_request.py   its options, which kproxy-spark report has too, and the plan that they make
    sql.py            kproxy sql: queries, and rows as a table, CSV or JSON
    reading.py        sources read for kproxy report and sql: bar, Ctrl-C, and the process that gives a first answer
    open.py           kproxy open: the server of kproxy.page on a loopback port
    api.py            kproxy api: the protocol reference
    replay.py         kproxy replay: its options, the plan and the result on standard output, Ctrl-C, exit status
    run.py            kproxy run: its options; then this process becomes another program
    running.py        that program: options to a configuration, then it is the supervisor of kproxy.proxy
    check.py          kproxy check: the mistakes of a configuration, or what it would run; its JSON Schema
    users.py          kproxy users: who may log in to kproxy, in a file
    keys.py           kproxy keys: the keys of a key service, made, rotated, checked, destroyed
    doctor.py         kproxy doctor: what kproxy.doctor finds, as lines
    filters.py        kproxy filters: the filters there are, and the reference of one
    help.py           kproxy help: the topics of kproxy.manual
    completion.py     kproxy completion: the script for a shell
    spark.py          kproxy-spark: ingest, report
    demo.py           kproxy demo: a mock cluster, kproxy in front of it, clients at work, and their traffic as text
    demo_workload.py    the cluster and the clients

To add a command, write a Click command ``kproxy/cli/NAME.py`` with a function of that name, and add it to COMMANDS in
app.py. To add an option, add a ``click.option`` to its command (for `kproxy run` also a field of config.reading.Options).

Start-up is lazy in one place: app.py imports the module of the command that was chosen, and no other. Inside a command,
what only some options need (pyarrow, cryptography, CEL) is imported by the function that needs it, with the reason next to
it. tests/cli/test_app.py lists what `kproxy --version`, `--help` and `decode` must not import.
"""

import gc
import os
import sys

from kproxy import COLLECT_AFTER, __version__

SPARK = "kproxy-spark"


def main_of_spark(arguments: list[str] | None = None) -> None:
    """Run the command line of kproxy-spark, as ``main`` does that of kproxy."""
    main(arguments, SPARK)


def main(arguments: list[str] | None = None, program: str = "kproxy") -> None:
    """Run the command line, and exit with one of the codes listed in endings.py."""
    is_process = arguments is None
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:  # answered without importing Click
        try:
            print(f"{program} {__version__}", flush=True)
        except OSError as error:
            from kproxy.pipeline.sink import forget_output  # noqa: PLC0415 - --version imports nothing

            forget_output()
            if not isinstance(error, BrokenPipeError):
                sys.exit(f"{program}: standard output: {error.strerror}")
        sys.exit(0)
    import signal  # noqa: PLC0415 - --version imports nothing

    if is_process and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends an import without a traceback
    is_reading = is_process and program != SPARK and arguments[:1] in (["decode"], ["report"], ["sql"])
    if is_reading:
        sys.meta_path.insert(0, _Hidden)
    before = gc.get_threshold()
    gc.disable()  # start-up makes thousands of objects that stay: without collections it is a tenth faster
    try:
        from kproxy.cli import app  # noqa: PLC0415 - after --version, and with the collector off

        if program == SPARK:
            from kproxy.cli.spark import kproxy_spark  # noqa: PLC0415 - kproxy has none of it

            app.main(arguments, kproxy_spark, program)
        else:
            app.main(arguments)
    except SystemExit as end:
        if is_reading and isinstance(end.code, int):
            _leave(end.code)
        raise
    finally:
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*before)


def end_start_up() -> None:
    """Switch the garbage collector on, once the command is imported; modules loaded until now are never collected.

    From now on Ctrl-C is a KeyboardInterrupt again, which app.main expects.
    """
    import signal  # noqa: PLC0415 - --version imports nothing

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


class _Hidden:
    """Lets pyarrow and DuckDB find neither numpy nor pandas: they would import both, or look for numpy at each value of a query.

    What kproxy does with pyarrow and DuckDB needs neither. None in sys.modules would not do: what Cython compiled takes it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in ("numpy", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _leave(code: int) -> None:
    """End the process at once; all outputs are closed. Freeing every object first would take a fifth of a small decode's time."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
