"""The command line: see the package's docstring."""

import sys
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path

import click

from kproxy.analyses.library import load
from tests.truth.lab import WORKLOADS
from tests.truth.lab import make as make_one
from tests.truth.manifest import read_manifests
from tests.truth.score import score

WORKLOADS_IN = (
    "applications",
    "everyday",
    "harm",
    "healthy",
    "incidents",
    "misuse",
    "nights",
    "notices",
    "operations",
    "oversights",
    "production",
    "rare",
    "replicas",
    "threes",
    "unlike",
    "unreached",
    "unusual",
)
for module in WORKLOADS_IN:
    import_module(f"tests.truth.{module}")  # it fills WORKLOADS
STORED = Path(__file__).resolve().parents[2] / "captures" / "truth"


@click.group()
def main() -> None:
    """Workloads whose truth was chosen."""


@main.command("list")
def list_all() -> None:
    """List the workloads."""
    for work in WORKLOADS.values():
        kind = "healthy" if work.healthy else "incident"
        print(f"{work.name:32} {kind:9} {work.nodes} x {work.release:9} {work.about}")


@main.command()
@click.argument("names", nargs=-1)
@click.option("-o", "--output", type=Path, default=STORED, show_default=True)
@click.option(
    "--seed", type=int, help="Draw libraries, releases, rates, sizes and waits where a workload leaves them open."
)
def make(names: tuple[str, ...], output: Path, seed: int | None) -> None:
    """Run workloads, by default all."""
    output.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names or tuple(WORKLOADS):
        try:
            manifest = make_one(WORKLOADS[name], output, seed)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        else:
            print(f"{name}: {manifest.ended_at - manifest.started_at:.0f} s", flush=True)
            for client in manifest.clients:
                print(f"    {client.client_id} ({client.library}): {client.reported}")
    if failed:
        sys.exit(f"not made: {' '.join(failed)}")


@main.command()
@click.argument("folders", type=Path, nargs=-1)
def coverage(folders: tuple[Path, ...]) -> None:
    """How many incidents and look-alikes of each analysis the manifests of folders have."""
    incidents: Counter[str] = Counter()
    alike: Counter[str] = Counter()
    made = {manifest.name: manifest for folder in folders or (STORED,) for manifest in read_manifests(folder).values()}
    for truth in (truth for manifest in made.values() for truth in manifest.truths):
        if truth.never:
            alike[truth.analysis] += 1
        elif truth.must:
            incidents[truth.analysis] += truth.times
    healthy = sum(manifest.healthy for manifest in made.values())
    print(f"{len(made)} workloads; about {healthy} of them nothing critical may be said by any analysis")
    print(f"{'':28}{'incidents':>10}{'look-alikes':>12}")
    for name in sorted(name for name, analysis in load().items() if analysis.is_finding or incidents[name]):
        print(f"{name:28}{incidents[name]:10}{alike[name]:12}")


@main.command("score")
@click.argument("folder", type=Path, default=STORED)
@click.option("-q", "--quiet", is_flag=True, help="Print the table only.")
def score_all(folder: Path, *, quiet: bool) -> None:
    """Compare what kproxy report says with what is true."""
    result = score(folder)
    if not quiet:
        print(result.wrong())
    print(result.table())


if __name__ == "__main__":
    main()
