"""Make kproxy/protocol/setting_names.txt from what releases of Kafka say they know: `python -m tests.support.setting_names`.

With ``--check`` it only says whether the file is what it would write. It needs Java and, the first time, Maven; minutes.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.support.kafka.jars import NEWEST, fetch, folder_of

FILE = Path(__file__).parents[2] / "kproxy" / "protocol" / "setting_names.txt"
PROGRAM = Path(__file__).parent / "kafka" / "SettingNames.java"
RELEASES = {  # and the Scala that they were built with
    "0.9.0.1": "2.11",
    "0.11.0.3": "2.12",
    "1.1.1": "2.12",
    "2.8.2": "2.13",
    "3.9.2": "2.13",
    NEWEST: "2.13",
}
HEAD = f"""\
# Settings of brokers, topics, groups and client metrics that Kafka knows, one a line. The value of any other may be a secret.
# From the classes KafkaConfig, LogConfig, GroupConfig, ClientMetricsConfigs and DynamicConfig of Kafka {", ".join(RELEASES)}:
# tests/support/setting_names.py asks them.
"""
PATIENCE = 300  # seconds


def names_of(release: str) -> set[str]:
    """What the classes of a release say."""
    where = folder_of(f"{release}-names")
    if not where.is_dir():
        fetch(where, [("org.apache.kafka", f"kafka_{RELEASES[release]}", release)])
    words = ["java", "-cp", f"{where}/*", str(PROGRAM)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.returncode:
        raise SystemExit(f"{release}: {done.stderr[-2_000:]}")
    return set(done.stdout.split())


def main() -> None:
    """Write the file, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="say whether the file is what this would write")
    given = parser.parse_args()
    found = {release: names_of(release) for release in RELEASES}
    for release, names in found.items():
        print(f"{release:9} {len(names)} settings", file=sys.stderr)
    text = HEAD + "".join(f"{name}\n" for name in sorted(set().union(*found.values())))
    if not given.check:
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{FILE} differs: run python -m tests.support.setting_names")


if __name__ == "__main__":
    main()
