"""``kproxy completion``: the script that has a shell complete commands, options and their values."""

import click
from click.shell_completion import get_completion_class

from kproxy.pipeline.sink import Sink

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script for completion in a shell.

    \b
    eval "$(kproxy completion bash)"       # in ~/.bashrc
    eval "$(kproxy completion zsh)"        # in ~/.zshrc
    kproxy completion fish | source        # in ~/.config/fish/config.fish

    Commands, options and their values are completed: APIs, analyses, filters, faults, and the names that --where may use.
    """
    made = get_completion_class(shell)
    assert made is not None, "Click has all three"
    with Sink(None, live=False) as sink:
        sink.write(f"{made(click.Command('kproxy'), {}, 'kproxy', '_KPROXY_COMPLETE').source()}\n".encode())
