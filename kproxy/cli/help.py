"""``kproxy help``: the topics of the manual, rendered in the terminal; for a command, its --help."""

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
    width = max(map(len, TOPICS))
    for name, line in TOPICS.items():
        click.echo(f"{name:<{width}}  {line}")
    click.echo(
        "\nkproxy help TOPIC shows one; kproxy help COMMAND, or kproxy COMMAND --help, the options of a command."
    )


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
    from rich.console import Console  # noqa: PLC0415 - takes a tenth of a second; the list of topics does without
    from rich.markdown import Markdown  # noqa: PLC0415

    console = Console(highlight=False)
    console.print(Markdown(markdown, code_theme="ansi_light", hyperlinks=False), width=min(console.width, WIDEST))
