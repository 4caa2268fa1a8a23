"""Any capture, any conversation in it: `kproxy decode` ends with a documented exit status, never with a traceback."""

import random
from pathlib import Path

import pytest

from kproxy.cli import main
from tests.fuzz.altered_target import all_altered_pairs, outermost_altered_pairs
from tests.fuzz.capture_target import (
    OUTPUTS,
    altered_conversation,
    check_capture,
    damaged_capture,
    damaged_conversation,
    damaged_packets,
    real_captures,
)
from tests.support.sampled import sampled

JSONL = OUTPUTS[0]
OFFSET_COMMIT = b"\0\x08"


@pytest.mark.parametrize("seed", sampled(range(60), range(4)))
def test_a_damaged_capture_is_decoded_up_to_the_damage(seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"capture {seed}")
    check_capture(chance, damaged_capture(chance), tmp_path)


@pytest.mark.parametrize("seed", sampled(range(100), range(5)))
def test_a_capture_of_damaged_packets_is_decoded(seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"packets {seed}")
    assert check_capture(chance, damaged_packets(chance), tmp_path) == 0


@pytest.mark.parametrize("seed", sampled(range(150), range(5)))
def test_a_sound_capture_of_damaged_frames_is_decoded(seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"conversation {seed}")
    assert check_capture(chance, damaged_conversation(chance, tmp_path), tmp_path) == 0


def test_the_oldest_and_newest_requests_and_responses_are_decoded_whatever_a_field_has(tmp_path: Path) -> None:
    for pairs in outermost_altered_pairs():
        assert check_capture(random.Random(1), altered_conversation(pairs, tmp_path), tmp_path, JSONL) == 0


@pytest.mark.slow
@pytest.mark.parametrize("output", OUTPUTS, ids=" ".join)
def test_every_request_and_response_is_decoded_whatever_a_field_has(output: list[str], tmp_path: Path) -> None:
    for pairs in all_altered_pairs():
        assert check_capture(random.Random(1), altered_conversation(pairs, tmp_path), tmp_path, output) == 0


def test_commits_of_any_offset_are_counted(tmp_path: Path) -> None:
    """The steps between the largest and the least are beyond 64 bits."""
    pairs = [pair for pairs in all_altered_pairs() for pair in pairs if pair[0][4:6] == OFFSET_COMMIT]
    path = tmp_path / "altered.pcap"
    path.write_bytes(altered_conversation(pairs, tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["report", "-q", "--only", "commit_storm", "-o", str(tmp_path / "report.json"), str(path)])
    assert ended.value.code == 0


def test_a_capture_cut_anywhere_is_decoded_up_to_the_cut(tmp_path: Path) -> None:
    chance = random.Random("cuts")
    for data in real_captures():
        cut = chance.randrange(100, len(data))
        assert check_capture(chance, data[:cut], tmp_path) in (0, 3)
