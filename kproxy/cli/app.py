"""The commands, and what becomes of errors: one sentence on standard error and an exit code.

0    done
1    kproxy could not go on (an output that cannot be written, for instance)
2    bad input from a person: an option, a file that is not there, or neither capture nor decoded log, an expression
3    a capture is damaged: what comes before the damage was decoded; or a decoded log: the lines that are whole were
130  interrupted; what came before was decoded
"""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from kproxy import __version__
from kproxy.cli.api import api
from kproxy.cli.check import check
from kproxy.cli.decode import DAMAGED, INTERRUPTED, decode
from kproxy.cli.demo import demo
from kproxy.cli.run import run
from kproxy.errors import CaptureError, ConfigError, KproxyError, OutputClosed, UsageError

# Typer's own, or Click's where Typer is older and does not carry its own copy; both are bases of BadParameter.
ClickError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

TYPER_WORDS = {  # how Typer words what a type refuses, and how we do
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it is not a whole number",
}
DONE, FAILED, USAGE = 0, 1, 2

app = typer.Typer(
    name="kproxy",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(decode)
app.command()(demo)
app.command()(api)
app.command()(run)
app.command()(check)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"kproxy {__version__}")
        raise typer.Exit


@app.callback()
def kproxy(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """See, filter and explain Kafka traffic."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with one of the codes above."""
    try:
        code = app(args=arguments, prog_name="kproxy", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OutputClosed:
        code = DONE
    except ClickError as error:
        code = _show_help(error) if type(error).__name__ == "NoArgsIsHelpError" else _say(_click_words(error), USAGE)
    except ConfigError as error:
        code = _list_mistakes(error)
    except UsageError as error:
        code = _say(str(error), USAGE)
    except CaptureError as error:
        code = _say(str(error), DAMAGED)
    except (KproxyError, OSError) as error:
        code = _say(_os_words(error) if isinstance(error, OSError) else str(error), FAILED)
    except MemoryError:
        code = _say("there is not enough memory for what is in the capture; what was written before is right", FAILED)
    sys.exit(code if isinstance(code, int) else DONE)


def _say(sentence: str, code: int) -> int:
    if sentence:
        print(f"kproxy: {sentence}", file=sys.stderr)
    return code


def _list_mistakes(error: ConfigError) -> int:
    """One a line; those of a file as its name, line and column, which editors jump to."""
    for line in error.lines():
        print(line if error.source else f"kproxy: {line}", file=sys.stderr)
    return USAGE


def _show_help(error: Exception) -> int:
    """Print the help as it is: nothing was asked for."""
    print(getattr(error, "message", "") or error, file=sys.stderr)
    return USAGE


def _click_words(error: Exception) -> str:
    """Typer's message as a sentence of ours; empty when it has shown the help instead."""
    command = getattr(getattr(error, "ctx", None), "command_path", None) or "kproxy"
    describe: Callable[[], str] = getattr(error, "format_message", error.__str__)
    message = describe().strip()
    for words, ours in TYPER_WORDS.items():
        message = message.replace(words, ours)
    return f"{message[:1].lower()}{message[1:].rstrip('.')}; see {command} --help" if message else ""


def _os_words(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
