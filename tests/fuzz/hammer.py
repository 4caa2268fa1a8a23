"""A plain fuzzer: damages Kafka's own bytes and gives them to the codec, to the readers of records, and
in captures to `kproxy decode`.

    python tests/fuzz/hammer.py [--minutes 10] [--seed N]

Exits with 1 at the first thing that is neither a value nor a documented error, saying which seed and round shows it again.
It is meant for a build with sanitizers (asan.py), where a wrong read ends the process; it runs anywhere.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.altered_target import some_altered_pairs
from tests.fuzz.avro_target import check_avro, damaged_payload
from tests.fuzz.capture_target import (
    altered_conversation,
    check_capture,
    damaged_capture,
    damaged_conversation,
    damaged_packets,
)
from tests.fuzz.codec_target import check_codec
from tests.fuzz.records_target import check_records
from tests.support.corpus import damaged, golden_bodies, golden_lines

EVERY = 20_000  # rounds between two progress lines
RECORDS = 4  # one round in so many is a records field, and one a payload of Avro
CAPTURES = 100  # one round in so many is a capture: they take about that much longer


def hammer(seed: int, seconds: float) -> int:
    """Rounds done; whatever is not documented goes to the caller."""
    bodies = golden_bodies()
    fields = [bytes.fromhex(line["hex"]) for line in golden_lines("records")]
    end = time.monotonic() + seconds
    rounds = read = 0
    with tempfile.TemporaryDirectory(prefix="kproxy-hammer-") as folder:
        while time.monotonic() < end:
            try:
                read += one_round(random.Random(f"{seed} {rounds}"), rounds, bodies, fields, Path(folder))
            except BaseException:
                print(f"round {rounds} of seed {seed} failed", file=sys.stderr, flush=True)
                raise
            rounds += 1
            if rounds % EVERY == 0:
                print(f"{rounds} rounds, {read} read, {rounds - read} refused", flush=True)
    return rounds


def one_round(
    chance: random.Random, number: int, bodies: list[tuple[str, int, bytes]], fields: list[bytes], folder: Path
) -> bool:
    """Whether the bytes that this round made could be read."""
    if number % CAPTURES == 0:
        match chance.randrange(4):
            case 0:
                data = damaged_capture(chance)
            case 1:
                data = damaged_packets(chance)
            case 2:
                data = altered_conversation(some_altered_pairs(chance, most=200), folder)
            case _:
                data = damaged_conversation(chance, folder)
        return check_capture(chance, data, folder) == 0
    if number % RECORDS == 1:
        return check_avro(damaged_payload(chance))
    if number % RECORDS == 0:
        return bool(check_records(damaged(chance, chance.choice(fields))))
    name, version, data = chance.choice(bodies)
    return check_codec(name, version, damaged(chance, data) if number % 8 else chance.randbytes(chance.randrange(200)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rounds = hammer(arguments.seed, arguments.minutes * 60)
    print(f"{rounds} rounds of seed {arguments.seed}: values and documented errors, nothing else")


if __name__ == "__main__":
    main()
