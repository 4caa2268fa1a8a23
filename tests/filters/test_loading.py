"""Filters by dotted path and by name, and one sentence for every mistake."""

import importlib.metadata
import os
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.config import Addresses, Cluster, FilterUse
from kproxy.errors import UsageError
from kproxy.filters.contract import Filter
from kproxy.filters.loading import BUILT_IN, GROUP, FilterMistakes, load_chain, load_filter, source_of
from kproxy.filters.narrow_api_versions import NarrowApiVersions
from kproxy.filters.rewrite_addresses import RewriteAddresses
from tests.filters.made_under_prefix import TopicPrefix

PREFIX = "tests.filters.made_under_prefix:TopicPrefix"
MODULE = """
from kproxy.filters.contract import Filter

class Base:
    class Inner(Filter):
        pass

class Picky(Filter):
    def __init__(self, level: int = 3) -> None:
        if level > 5:
            raise ValueError("level is 1 to 5")

A_NUMBER = 5
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules where Python looks: good, broken, needy."""
    (tmp_path / "good_filters.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "broken_filters.py").write_text("1 / 0\n", encoding="utf-8")
    (tmp_path / "needy_filters.py").write_text("import no_such_library\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("good_filters", "broken_filters", "needy_filters"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_by_dotted_path_with_options() -> None:
    filter_ = load_filter(PREFIX, {"prefix": "team-a."})
    assert type(filter_).__name__ == "TopicPrefix"
    assert vars(filter_) == {"prefix": "team-a."}


def test_a_class_within_a_class(modules: None) -> None:
    assert type(load_filter("good_filters:Base.Inner", {})).__qualname__ == "Base.Inner"


def test_by_name_built_in() -> None:
    assert isinstance(load_filter("rewrite_addresses", {}), RewriteAddresses)


def test_built_ins_are_registered_under_the_same_names() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"][GROUP] == BUILT_IN


def test_by_name_of_an_installed_package(monkeypatch: pytest.MonkeyPatch, modules: None) -> None:
    installed = EntryPoints([EntryPoint("picky", "good_filters:Picky", GROUP), EntryPoint("gone", "no_such:X", GROUP)])
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: installed.select(group=group))
    assert type(load_filter("picky", {"level": 2})).__name__ == "Picky"
    assert mistake("gone") == "'gone': there is no module 'no_such' where Python looks (PYTHONPATH)"
    assert mistake("pick").startswith("there is no filter 'pick'; did you mean picky? A filter of your own is named ")


def mistake(use: str, options: Any = None) -> str:
    with pytest.raises(UsageError) as caught:
        load_filter(use, options or {})
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("use", "options", "said"),
    [
        ("", {}, "there is no filter ''; there are "),
        ("no_such", {}, "there is no filter 'no_such'; there are "),
        (":Class", {}, "':Class' is no dotted path like \"package.module:Class\""),
        ("good_filters:", {}, "'good_filters:' is no dotted path"),
        ("../x:Class", {}, "'../x:Class' is no dotted path"),
        ("no_such.filters:Class", {}, "there is no module 'no_such' where Python looks (PYTHONPATH)"),
        ("tests.no_such:Class", {}, "there is no module 'tests.no_such' where Python looks (PYTHONPATH)"),
        ("needy_filters:Class", {}, "module 'needy_filters' needs 'no_such_library', which is not installed"),
        ("broken_filters:Class", {}, "module 'broken_filters' cannot be imported: ZeroDivisionError: division by zero"),
        ("good_filters:Class", {}, "'good_filters' has no 'Class'"),
        ("good_filters:Base.Outer", {}, "'good_filters' has no 'Base.Outer'"),
        (
            "good_filters:A_NUMBER",
            {},
            "is a value of type int, not a class derived from kproxy.filters.contract.Filter",
        ),
        ("good_filters:Base", {}, "is the class Base, not a class derived from kproxy.filters.contract.Filter"),
        ("good_filters:Picky", {"lvl": 3}, "got an unexpected keyword argument 'lvl'); it takes level: int = 3"),
        (PREFIX, {}, "missing a required argument: 'prefix'); it takes prefix: str"),
        ("rewrite_addresses", {"to": "x"}, "got an unexpected keyword argument 'to'); it takes none"),
        ("good_filters:Picky", {"level": 9}, "refuses its options: ValueError: level is 1 to 5"),
        ("good_filters:Picky", {"level": "high"}, "refuses its options: TypeError: '>' not supported"),
    ],
)
def test_every_mistake_has_its_sentence(modules: None, use: str, options: dict[str, Any], said: str) -> None:
    assert said in mistake(use, options)


def cluster(mode: Any, *uses: FilterUse) -> Cluster:
    return Cluster(listen="127.0.0.1:9092", addresses=Addresses(mode=mode), filters=list(uses))


def kinds(chain_filters: tuple[Filter, ...]) -> list[str]:
    return [type(filter_).__name__ for filter_ in chain_filters]


def test_a_chain_begins_with_the_rewriting_of_addresses_so_that_it_has_the_last_word() -> None:
    uses = [FilterUse(use=PREFIX, with_={"prefix": "a."}), FilterUse(use="rewrite_addresses")]
    expected = [NarrowApiVersions.__name__, RewriteAddresses.__name__, TopicPrefix.__name__]
    assert kinds(load_chain(cluster("port", *uses)).filters) == expected
    assert kinds(load_chain(cluster("sni", *uses)).filters) == expected
    assert kinds(load_chain(cluster("fixed", *uses)).filters) == expected[2:]
    assert load_chain(cluster("transparent")).filters == ()


def test_a_mistake_in_a_chain_says_which_filter() -> None:
    with pytest.raises(UsageError, match=r"^filters\[1\]: there is no filter 'x'"):
        load_chain(cluster("port", FilterUse(use=PREFIX, with_={"prefix": ""}), FilterUse(use="x")))


def test_the_chain_is_given_what_it_needs() -> None:
    async def wait(pending: Any, seconds: float) -> Any:
        return await pending

    faults: list[tuple[str, str, str]] = []
    chain = load_chain(cluster("port"), wait=wait, most_frame_size=99, on_fault=lambda *told: faults.append(told))
    assert (chain.wait, chain.most_frame_size) == (wait, 99)
    chain.note_fault(RewriteAddresses(), "on_response", "a response", "it is odd")
    assert faults == [("rewrite_addresses", "on_response", "unusable")]
    assert load_chain(SimpleNamespace(addresses=Addresses(), filters=())).filters


TYPED = """
from kproxy.filters.contract import Filter
from kproxy.filters.options import Options

class MineOptions(Options, frozen=True):
    level: int = 3

class Mine(Filter):
    Options = MineOptions

    def __init__(self, options: MineOptions) -> None:
        self.level = options.level
        if self.level == 9:
            raise ValueError("not 9")
"""


def test_typed_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "typed_filters.py").write_text(TYPED, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert vars(load_filter("typed_filters:Mine", {"level": 4})) == {"level": 4}
    with pytest.raises(FilterMistakes) as caught:
        load_filter("typed_filters:Mine", {"level": "x", "lvl": 1})
    assert [path for path, _ in caught.value.problems] == ["with.level", "with.lvl"]
    line = TYPED.splitlines().index('            raise ValueError("not 9")') + 1
    assert mistake("typed_filters:Mine", {"level": 9}).endswith(f"not 9 at {tmp_path / 'typed_filters.py'}:{line}")


def test_a_changed_module_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, also when size and time of the file are as before; with a mistake the one before stays whole."""
    file = tmp_path / "changing_filters.py"
    text = "from kproxy.filters.contract import Filter\nclass Mine(Filter):\n    timeout = 1\n"
    file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    use = FilterUse(use="changing_filters:Mine")
    cluster = Cluster(listen=":1", bootstrap=["b:1"], addresses=Addresses(mode="fixed"), filters=[use])
    before = load_chain(cluster).filters[0]
    stamp = file.stat()
    file.write_text(text.replace("= 1", "= 2"), encoding="utf-8")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert load_chain(cluster).filters[0].timeout == 1
    assert load_chain(cluster, again=True).filters[0].timeout == 2
    file.write_text("class Mine:\n    pass\n1 / 0\n", encoding="utf-8")
    with pytest.raises(UsageError, match=rf"ZeroDivisionError: division by zero at {file}:3$"):
        load_chain(cluster, again=True)
    file.write_text("class Mine(:\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"SyntaxError: .*changing_filters.py, line 1"):
        load_chain(cluster, again=True)
    assert load_chain(cluster).filters[0].timeout == 2
    assert before.timeout == 1


def test_where_the_source_of_a_filter_is(modules: None, tmp_path: Path) -> None:
    assert source_of("good_filters:Picky") == str(tmp_path / "good_filters.py")
    assert source_of("rewrite_addresses") is None
    assert source_of("no_such_module:X") is None
    assert source_of("no_such_name") is None
