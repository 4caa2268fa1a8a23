"""The pages of filters say what their options say."""

from typing import Annotated, Literal

from msgspec import Meta

from kproxy.filters.contract import Filter
from kproxy.filters.options import Options, Rotated, Size, text
from kproxy.filters.reference import described, options_of, render_list, render_page, summary


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
