"""kproxy-spark report answers as kproxy report does, with the same options and exit status."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kproxy.cli import main as kproxy
from kproxy.cli.spark import main as kproxy_spark
from tests.support.corpus import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = CAPTURES / "08-old-broker-0.9-format0.pcap"


def run(main: Any, *words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return int(ended.value.code or 0)


def same(capsys: pytest.CaptureFixture[str], status: int, *words: object) -> dict[str, Any]:
    """The JSON that both give, with this exit status."""
    pages = []
    for main in (kproxy, kproxy_spark):
        capsys.readouterr()
        assert run(main, "report", "-q", "--format", "json", *words) == status
        pages.append(json.loads(capsys.readouterr().out))
    assert pages[0] == pages[1]
    return pages[0]


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_both_give_the_same_page_and_exit_status(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client that Kafka 4 breaks: status 4; a damaged capture: status 3 and the sentence."""
    found = same(capsys, 4, "--target", "4.0", OLD)
    assert found["analyses"]["readiness"]["parameters"]["target"] == "4.0"
    (cut := tmp_path / "cut.pcap").write_bytes(OLD.read_bytes()[:-3])
    assert len(same(capsys, 3, "--only", "inventory", cut)["damages"]) == 1


def test_the_list_is_that_of_kproxy_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(kproxy, "report", "--list") == 0
    expected = capsys.readouterr().out
    assert run(kproxy_spark, "report", "--list") == 0
    assert capsys.readouterr().out == expected
