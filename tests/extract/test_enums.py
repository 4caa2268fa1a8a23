"""The members of ApiKey and ErrorCode are rewritten in place; the modules that stand are what the facts give."""

from kproxy.extract import enums
from kproxy.protocol import facts
from kproxy.protocol.facts import Facts

SOURCE = '''class Number(IntEnum):
    """Numbers."""

    OLD = 1
    OLDER = -1


LIMIT = 5
'''


def test_the_members_are_replaced_and_nothing_else() -> None:
    assert enums.with_members(SOURCE, [("NEW", -2), ("NEWER_2", 3)]) == SOURCE.replace(
        "    OLD = 1\n    OLDER = -1\n", "    NEW = -2\n    NEWER_2 = 3\n"
    )


def test_names_are_kafkas_in_capitals() -> None:
    known = Facts("error 5 FIVE -\nerror -1 MINUS_ONE -\napi 2 ListOffsets listeners=broker versions=0")
    assert enums.api_members(known) == [("LIST_OFFSETS", 2)]
    assert enums.error_members(known) == [("MINUS_ONE", -1), ("FIVE", 5)]


def test_the_modules_are_what_the_facts_give() -> None:
    for path, text in enums.written_enums(facts()).items():
        assert path.read_text(encoding="utf-8") == text
