"""Lines of the golden files (tests/golden/README.md): what Kafka's own classes wrote and what it means."""

import functools
import gzip
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden"


@functools.cache
def golden_lines(group: str) -> tuple[dict[str, Any], ...]:
    """All lines of ``<group>.jsonl.gz``."""
    with gzip.open(GOLDEN / f"{group}.jsonl.gz", "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)


def payloads(kind: str) -> list[dict[str, Any]]:
    """The lines of embedded.jsonl.gz of one kind."""
    found = [line for line in golden_lines("embedded") if line["kind"] == kind]
    assert found, f"the corpus has no {kind}"
    return found
