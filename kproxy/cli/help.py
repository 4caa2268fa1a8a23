"""``kproxy help``: the topics of the manual, rendered in the terminal; for a command, its --help."""

import shutil
import sys

import click

from kproxy.errors import UsageError, did_you_mean
from kproxy.manual import TOPICS, text

WIDEST = 120  # columns: longer lines are hard to read


@click.command()
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.option("--markdown", is_flag=True, help="Print the Markdown as it stands, not rendered.")
@click.pass_context
def help_(context: click.Context, topic: str | None, markdown: bool) -> None:
    """Read the manual: conditions, page, filters, tables, limits.

    \b
    kproxy help
    kproxy help conditions
    kproxy help decode

    Without TOPIC, list the topics. The name of a command that is no topic shows the --help of that command.
    """
    if topic is None:
        _list_topics()
    elif topic not in TOPICS:
        click.echo(_help_of(context, topic))
    elif markdown:
        sys.stdout.write(text(topic))
    else:
        _render(text(topic))


def _list_topics() -> None:
    formatter = click.HelpFormatter(width=min(shutil.get_terminal_size().columns, WIDEST))
    formatter.write_dl(list(TOPICS.items()))
    formatter.write_paragraph()
    formatter.write_text(
        "kproxy help TOPIC shows one; kproxy help COMMAND, or kproxy COMMAND --help, the options of a command."
    )
    click.echo(formatter.getvalue(), nl=False)


def _help_of(context: click.Context, name: str) -> str:
    """Return the --help of the command called *name*. Raises UsageError, with what was perhaps meant, when there is none."""
    root = context.find_root()
    group = root.command
    assert isinstance(group, click.Group)
    command = group.get_command(context, name)
    if command is None:
        meant = did_you_mean(name, [*TOPICS, *group.list_commands(context)], "kproxy help lists the topics")
        raise UsageError(f"there is no topic and no command '{name}'; {meant}")
    return command.get_help(click.Context(command, info_name=name, parent=root))


def _render(markdown: str) -> None:
    # Importing rich takes a tenth of a second; the list of topics does without.
    from rich.console import Console, ConsoleOptions, RenderResult  # noqa: PLC0415
    from rich.markdown import CodeBlock, Markdown  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class WholeLines(CodeBlock):
        """Code whose lines are not broken, so that a command can be copied from a narrow terminal."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for line in str(self.text).rstrip().splitlines():
                yield Text(f"  {line}", no_wrap=True, overflow="ignore")

    class Manual(Markdown):
        elements = {**Markdown.elements, "fence": WholeLines, "code_block": WholeLines}  # noqa: RUF012 - as in Markdown

    console = Console(highlight=False)
    console.print(Manual(markdown, hyperlinks=False), width=min(console.width, WIDEST), crop=False)
