"""A plain fuzzer: damages Kafka's own bytes and gives them to the codec, and as records, until the time is up.

    python tests/fuzz/hammer.py [--minutes 10] [--seed N]

Exits with 1 at the first thing that is neither a value nor a DecodeError, saying which seed and round shows it again.
It is meant for a build with sanitizers (asan.py), where a wrong read ends the process; it runs anywhere.
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.codec_target import check_codec
from tests.fuzz.damage import damaged, golden_bodies
from tests.fuzz.records_target import check_records
from tests.support.record_batches import golden

EVERY = 20_000  # rounds between two progress lines


def hammer(seed: int, seconds: float) -> int:
    """Rounds done; AssertionError or whatever else came out of the codec goes to the caller."""
    bodies = golden_bodies()
    fields = [bytes.fromhex(line["hex"]) for line in golden()]
    end = time.monotonic() + seconds
    rounds = read = 0
    while time.monotonic() < end:
        chance = random.Random(f"{seed} {rounds}")
        name, version, data = chance.choice(bodies) if rounds % 4 else ("records", 0, chance.choice(fields))
        bad = damaged(chance, data) if rounds % 7 else chance.randbytes(chance.randrange(200))
        try:
            read += check_codec(name, version, bad) if rounds % 4 else check_records(bad)
        except BaseException:
            print(f"round {rounds} of seed {seed}: {name} v{version} {bad.hex()}", file=sys.stderr, flush=True)
            raise
        rounds += 1
        if rounds % EVERY == 0:
            print(f"{rounds} rounds, {read} read, {rounds - read} refused", flush=True)
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rounds = hammer(arguments.seed, arguments.minutes * 60)
    print(f"{rounds} rounds of seed {arguments.seed}: values and DecodeErrors, nothing else")


if __name__ == "__main__":
    main()
