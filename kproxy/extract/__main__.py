"""``python -m kproxy.extract``: write facts.txt, ApiKey and ErrorCode, or check that they match the jars."""

import difflib
import sys
import tempfile
from itertools import islice
from pathlib import Path

import click

from kproxy.errors import UsageError
from kproxy.extract.facts_text import render, written_enums
from kproxy.extract.jars import CLIENTS, LOGGING, RELEASES, fetch, read_definitions, read_error_codes, read_spoken
from kproxy.protocol.facts import Facts
from kproxy.protocol.judgements import unjudged

FACTS = Path(__file__).parent.parent / "protocol" / "facts.txt"
_SHOWN = 60  # lines of a difference; the first few say what is wrong


@click.command()
@click.option(
    "--jars",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the jars. Without it, Maven fetches them.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail when a file does not match the jars.")
def main(jars: Path | None, check: bool) -> None:
    """Make kproxy/protocol/facts.txt, and the members of ApiKey and ErrorCode, from the definitions in Kafka's jars."""
    try:
        text = facts_of(jars)
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    new_facts = Facts(text)
    if missing := unjudged(api.name for api in new_facts.apis.values()):
        click.echo(f"error: kproxy/protocol/api_judgements.txt lacks {', '.join(missing)}", err=True)
        sys.exit(2)
    files = {FACTS: text, **written_enums(new_facts)}
    if not check:
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
            click.echo(f"wrote {path}: {content.count(chr(10))} lines")
        return
    differences = [compare(path.name, path.read_text(encoding="utf-8"), content) for path, content in files.items()]
    if any(differences):
        click.echo("\n".join(filter(None, differences)))
        sys.exit(1)


def facts_of(jars: Path | None, *, offline: bool = False) -> str:
    """Return the text of facts.txt from the jars in a folder, or from those that Maven finds. Raises UsageError."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = jars or Path(scratch)
        if jars is None:
            fetch(folder, offline=offline)
        errors = read_error_codes((folder / jar.file for jar in CLIENTS), folder / LOGGING.file)
        return render(read_definitions(folder), errors, RELEASES, read_spoken(folder))


def compare(name: str, old: str, new: str) -> str:
    """Return the beginning of a unified diff of a file; empty without a difference."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, "from the jars", lineterm="", n=1)
    return "\n".join(islice(lines, _SHOWN))


if __name__ == "__main__":
    main()
