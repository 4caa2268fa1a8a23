"""Filters by dotted path and by name, and one sentence for every mistake; the example of the guide; the reference."""

import importlib.metadata
import inspect
import os
import re
import sys
import textwrap
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
import yaml
from msgspec import Meta

import kproxy.filters
from kproxy.cli.filters import filters
from kproxy.config.reading import parse_config
from kproxy.config.structs import Addresses, Cluster, FilterUse
from kproxy.errors import ConfigError, UsageError
from kproxy.filters.contract import Answer, Filter, Send
from kproxy.filters.loading import BUILT_IN, GROUP, FilterMistakes, load_chain, load_filter, source_of
from kproxy.filters.narrow_api_versions import NarrowApiVersions
from kproxy.filters.reference import described, options_of, render_list, render_page, summary
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.options import Options, Rotated, Size, text
from kproxy.protocol import Direction, known_message
from tests.support.filtering import CallingRuntime, connection
from tests.support.messages import request_frame

PREFIX = "tests.filters.test_loading:Prefixed"
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


class Prefixed(Filter):
    """A filter with a plain argument."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix


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
    assert type(filter_).__name__ == "Prefixed"
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
        ("no_such", {}, "validate. A filter of your own is named "),
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
    expected = [NarrowApiVersions.__name__, RewriteAddresses.__name__, Prefixed.__name__]
    assert kinds(load_chain(cluster("port", *uses)).filters) == expected
    assert kinds(load_chain(cluster("sni", *uses)).filters) == expected
    assert kinds(load_chain(cluster("fixed", *uses)).filters) == expected[2:]
    assert load_chain(cluster("transparent")).filters == ()


def test_a_mistake_in_a_chain_says_which_filter() -> None:
    with pytest.raises(UsageError, match=r"^filters\[1\]: there is no filter 'x'"):
        load_chain(cluster("port", FilterUse(use=PREFIX, with_={"prefix": ""}), FilterUse(use="x")))
    needs_schemas = FilterUse(use="validate", with_={"rules": [{}]})
    with pytest.raises(UsageError, match=r"^filters\[1\]: validate needs schemas"):
        load_chain(
            cluster("port", FilterUse(use=PREFIX, with_={"prefix": ""}), needs_schemas), runtime=CallingRuntime()
        )


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
from kproxy.options import Options

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


GUIDE = inspect.cleandoc(kproxy.filters.__doc__ or "")


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example's module where Python looks, and its configuration."""
    found = re.search(r"    # the module my_filters\n(.*?)    # kproxy.yaml\n(.*?)\n\n", GUIDE, re.DOTALL)
    assert found is not None
    (tmp_path / "my_filters.py").write_text(textwrap.dedent(found[1]), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    cluster = "clusters:\n- listen: :19092\n  bootstrap: [kafka:9092]\n"
    return cluster + textwrap.indent(textwrap.dedent(found[2]), "  ")


def created(*names: str) -> Any:
    topics = [{"name": name} for name in names]
    return request_frame("CreateTopicsRequest", 7, topics=topics)


def test_the_example_lets_through_what_it_should(configuration: str) -> None:
    chain = load_chain(parse_config(configuration, "kproxy.yaml").clusters[0])
    allowed = created("team-a.orders")
    assert chain.on_request(connection(), allowed) == Send(allowed)
    refused = chain.on_request(connection(), created("team-a.orders", "orders"))
    assert isinstance(refused, Answer)
    message = known_message(Direction.RESPONSE, 19)
    topics: Any = message.decode(7, refused.frame[9:])
    assert [(topic.name, topic.error_code, topic.error_message) for topic in topics.topics] == [
        ("team-a.orders", 44, "names begin with team-a."),
        ("orders", 44, "names begin with team-a."),
    ]


def test_a_mistake_in_its_options_has_its_line(configuration: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(configuration.replace("prefix: team-a.", "prefx: 1"), "kproxy.yaml")
    line = next(n for n, text in enumerate(configuration.splitlines(), 1) if "prefix:" in text)
    assert {(mistake.line, mistake.path) for mistake in caught.value.mistakes} == {
        (line, "clusters[0].filters[0].with.prefx")
    }


def test_the_filters_of_the_help_load() -> None:
    """Each with the options it shows."""
    (_, shown) = inspect.cleandoc(filters.help or "").split("filters:\n")
    uses = yaml.safe_load(shown)
    assert [load_filter(use["use"], use["with"]).name for use in uses] == [
        "audit",
        "deny",
        "mask",
        "throttle",
        "telemetry",
    ]


class PageOptions(Options, frozen=True):
    """Of Page."""

    file: Annotated[Rotated, text("Where it is written.")]
    mode: Annotated[Literal["a", "b"], text("One of two.")] = "a"
    most: Annotated[Size | None, text("At most so many bytes; null: no limit.")] = None
    level: Annotated[int, Meta(ge=1, le=9), text("How much.")] = 3
    topics: Annotated[tuple[str, ...], text("Names.")] = ("x",)


class Page(Filter):
    """Write pages.

    It has more to say.
    """

    Options = PageOptions

    def __init__(self, options: PageOptions) -> None: ...


class Plain(Filter):
    """Take plain arguments."""

    def __init__(self, prefix: str, level: int = 3) -> None: ...


def test_the_summary_is_the_first_sentence() -> None:
    assert summary(Page) == "Write pages."


def test_options_with_types_defaults_and_descriptions() -> None:
    found = {option.name: option[1:] for option in options_of(Page)}
    assert found["file"] == ("group", "required", "Where it is written.")
    assert found["file.most_size"] == (
        'size: 65536, "64KiB", "16MiB" or "1GiB"',
        "100MiB",
        "Size at which the next part begins.",
    )
    assert found["mode"] == ("a, b", '"a"', "One of two.")
    assert found["most"][1] == "null"
    assert found["level"] == ("whole number at least 1, at most 9", "3", "How much.")
    assert found["topics"] == ("list of text", '["x"]', "Names.")


def test_plain_arguments() -> None:
    assert [option[:3] for option in options_of(Plain)] == [("prefix", "str", "required"), ("level", "int", "3")]


def test_a_page_has_everything() -> None:
    page = "\n".join(render_page("page", Page, 80))
    assert page.startswith("page\n\nWrite pages.\n\nIt has more to say.\n\nOptions, under with:\n")
    assert '  mode  (a, b; default "a")\n      One of two.' in page


def test_a_list_has_a_line_for_each() -> None:
    assert list(render_list(["page", "x"], [Page, Plain], 40)) == ["page  Write pages.", "x     Take plain arguments."]


def test_as_data() -> None:
    assert described("plain", Plain)["options"][1] == {
        "name": "level",
        "type": "int",
        "default": "3",
        "description": "",
    }
