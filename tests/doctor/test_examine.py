"""The whole examination without a running kproxy."""

from pathlib import Path

from tests.support.doctored import broker, config_of, findings
from tests.support.links import run


def test_it_says_first_whether_kproxy_runs(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker() as port:
            found = await findings(config_of(tmp_path, f"127.0.0.1:{port}"))
            assert found[0].subject == "kproxy" and "none runs here" in found[0].what
            assert [one.subject for one in found if one.subject.startswith("default: 127")] == [
                f"default: 127.0.0.1:{port}"
            ]

    run(work)
