"""Which captures stay where they are: on this machine, and no larger than half of its memory."""

from pathlib import Path

import pytest

from kproxy.spark import in_place
from kproxy.spark.files import InputFile
from kproxy.spark.in_place import memory, stays

FILE = InputFile("/captures/a.pcap", 1_000, 5)


def test_a_capture_stays_where_all_tasks_read_it_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "memory", lambda: 2_000)
    assert stays("local[2]", FILE)
    assert stays("local", InputFile("file:///captures/a.pcap", 1_000, 5))
    assert not stays("local[2]", InputFile("/captures/a.pcap", 1_001, 5))
    assert not stays("local[2]", InputFile("s3://captures/a.pcap", 10, 5))
    assert stays("local[2]", InputFile("s3a://captures/a.pcap", 10, 5, copied_to="/staging/a"))
    assert not stays("spark://host:7077", FILE)
    assert not stays("", FILE)


def test_the_memory_is_that_of_the_machine_or_of_its_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    total = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:")) << 10
    monkeypatch.setattr(in_place, "CGROUP_LIMIT", tmp_path / "memory.max")
    assert memory() == total
    (tmp_path / "memory.max").write_text("max\n")
    assert memory() == total
    (tmp_path / "memory.max").write_text("1048576\n")
    assert memory() == 1 << 20
