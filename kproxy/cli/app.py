"""The commands; how errors end them is in endings.py."""

import os
import re
import sys
from importlib import import_module

import click
from click.shell_completion import shell_complete

from kproxy import __version__
from kproxy.cli import end_start_up
from kproxy.cli.endings import DONE, FAILED, INTERRUPTED, USAGE, show, show_error
from kproxy.errors import KproxyError, OutputClosed, did_you_mean

# Command -> its line in `kproxy --help`. The command is the function of this name (or NAME_) in kproxy/cli/NAME.py.
COMMANDS = {
    "decode": "Decode captures of Kafka traffic.",
    "report": "Report what matters in captures, decoded logs and tables.",
    "sql": "Query Kafka traffic with SQL.",
    "open": "Open captures, decoded logs or tables in the browser.",
    "replay": "Send the requests of captures to a cluster; compare answers.",
    "demo": "Run a cluster, kproxy and clients, and show their traffic.",
    "schemas": "List the schemas of records, and save them.",
    "api": "Look up Kafka's protocol: APIs, versions, fields, error codes.",
    "run": "Forward Kafka traffic, and analyze it.",
    "check": "Check a configuration file of kproxy run.",
    "users": "List who may log in to kproxy, or change it.",
    "keys": "List the keys that records are encrypted by, or change them.",
    "doctor": "Say what is wrong with a set-up, and what to do.",
    "filters": "List the filters, or show one and its options.",
    "completion": "Print the script for completion in a shell.",
    "help": "Read the manual: conditions, page, filters, tables, limits.",
}
CLICK_WORDS = {  # as Click words it, and as we do
    "not a valid integer range": "not a whole number",
    "not a valid integer": "not a whole number",
    "not a valid float range": "not a number",
}
EXTRA = re.compile(r"Got unexpected extra argument \((.+)\)")


class LazyCommands(click.Group):
    """Imports the module of a command when that command is chosen, so that no command waits for another's imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"kproxy.cli.{cmd_name}")
        command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")  # open_: open is Python's own
        end_start_up()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As Click does it, and with the commands that were perhaps meant."""
        name = str(args[0]) if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            raise click.UsageError(f"no such command '{name}': {did_you_mean(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the section "Commands" of the help from the table: no command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, prog_name="kproxy", message="%(prog)s %(version)s", help="Show the version and exit."
)
def kproxy() -> None:
    """See, filter and explain Kafka traffic.

    \b
    kproxy decode trace.pcapng
    kproxy report trace.pcapng
    kproxy run --listen :19092 --bootstrap kafka:9092
    kproxy COMMAND --help

    Completion in the shell: eval "$(kproxy completion bash)", or zsh; for fish, kproxy completion fish | source.
    """


def main(arguments: list[str], command: click.Command | None = None, name: str = "kproxy") -> None:
    """Run the command line; exits with one of the codes above. *command*: that of another program, *name*; None: kproxy's."""
    try:
        code = _run(command or kproxy, arguments, name)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        print(file=sys.stderr)  # ends the line on which the terminal shows ^C
        code = INTERRUPTED
    except (OutputClosed, BrokenPipeError):  # the reader of standard output (``| head``) has closed it
        from kproxy.pipeline.sink import forget_output  # noqa: PLC0415 - most commands have it anyway, --help has not

        forget_output()
        code = DONE
    except click.exceptions.NoArgsIsHelpError as error:
        code = show(error.message, USAGE)
    except click.ClickException as error:
        code = show(f"kproxy: {_click_sentence(error, arguments)}", USAGE)
    except (KproxyError, OSError) as error:
        code = show_error(error)
    except MemoryError:
        code = show("kproxy: there is not enough memory for this capture; everything written so far is right", FAILED)
    sys.exit(code if isinstance(code, int) else DONE)


def _run(command: click.Command, arguments: list[str], name: str) -> object:
    """Run a command, or complete one for a shell. As click.Command.main does, which exits with 1 for a closed pipe."""
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    if instruction := os.environ.get(variable):
        return shell_complete(command, {}, name, variable, instruction)
    try:
        with command.make_context(name, list(arguments)) as context:
            return command.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def _click_sentence(error: click.ClickException, arguments: list[str]) -> str:
    """Click's message in our form: lower case, no full stop, and which help to read."""
    context = getattr(error, "ctx", None)
    of = f"kproxy {arguments[0]}" if arguments and arguments[0] in COMMANDS else "kproxy"
    command = (
        context.command_path if context is not None else of
    )  # Click names no command for an option without its value
    if isinstance(error, click.NoSuchOption):  # releases of Click differ in how they word the suggestions
        message = f"no such option '{error.option_name}'"
        if error.possibilities:
            message += f" (did you mean {' or '.join(sorted(error.possibilities))}?)"
    else:
        message = " ".join(error.format_message().split())  # Click lists choices on lines of their own
    extra = EXTRA.fullmatch(message)
    if extra and context is not None and any("-c" in one.opts for one in context.command.params):
        message = f"{extra[1]} is an argument too many: write -c {extra[1]}"
    for words, ours in CLICK_WORDS.items():
        message = message.replace(words, ours)
    return f"{message[:1].lower()}{message[1:].rstrip('.')}; see {command} --help"
