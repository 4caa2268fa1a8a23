"""Completion of filters."""

from kproxy.page.filtering.completion import complete
from kproxy.page.filtering.filter import Filter
from kproxy.page.recorded import Recorded
from kproxy.page.work import Work


def choices(store: Recorded, text: str, of: str = "filter") -> tuple[str, list[str]]:
    """What is replaced of the text before |, and by what."""
    at = text.index("|")
    found = complete(store, Work(), text.replace("|", ""), at, of)
    return text[found["from"] : at], [one["text"] for one in found["choices"]]


def test_what_may_stand_there(store: Recorded) -> None:
    for text, replaced, first in (
        ("api|", "api", "apiKey"),
        ("true && lat|", "lat", "latencyMs"),
        ("apiKey == 3 || |", "", "event"),
        ("clientId.st|", "st", "startsWith"),
        ("errors.ex|", "ex", "exists"),
        ("errors.exists(e, e.|", "", "code"),
        ('apiName == "JoinGroup" && request.prot|', "prot", "protocolType"),
        ("request.topics[0].partit|", "partit", "partitions"),
        ('apiName == "Join|', '"Join', '"JoinGroup"'),
        ("apiName == |", "", '"Heartbeat"'),
        ('apiName in ["Fetch", "jo|', '"jo', '"JoinGroup"'),
        ('"g-ra|', '"g-ra', '"g-range" in groups'),
        ('topics == [] && "g-r|ange" in groups', '"g-r', '"g-range"'),
        ('groups.exists(g, g == "ran|', '"ran', '"g-range"'),
        ("princ|", "princ", "principal"),
    ):
        before, texts = choices(store, text)
        assert before == replaced, text
        assert first in texts[:8] if first != '"Heartbeat"' else first in texts, text
    found = complete(store, Work(), "😀 api", 6)  # a browser counts two units for it
    assert (found["from"], found["to"], found["choices"][0]["text"]) == (3, 6, "apiKey")


def test_a_literal_is_replaced_to_its_closing_quote(store: Recorded) -> None:
    text = 'clientId != "" && "g-rX" in groups && clientId == "b"'
    found = complete(store, Work(), text, text.index("X"))
    assert text[: found["from"]] + '"g-range"' + text[found["to"] :] == text.replace("g-rX", "g-range")
    assert found["choices"][0]["text"] == '"g-range"'


def test_what_may_stand_in_the_condition_of_a_breakpoint(store: Recorded) -> None:
    for text, of, first in (
        ("ap|", "request", "apiName"),
        ("princ|", "request", "principal"),
        ("client|", "request", "clientId"),
        ("errors.ex|", "response", "exists"),
        ("resources.exists(r, r.|", "request", "type"),
        ('apiName == "JoinGroup" && request.prot|', "request", "protocolType"),
        ('apiName == "JoinGroup" && response.gen|', "response", "generationId"),
        ('apiName == "|', "request", '"Heartbeat"'),
        ('apiName == "DescribeQuo|', "request", '"DescribeQuorum"'),
    ):
        assert first in choices(store, text, of)[1][:12], text


def test_a_breakpoint_is_offered_no_name_that_it_lacks_and_no_api_that_it_cannot_stop(store: Recorded) -> None:
    assert choices(store, "latency|", "request")[1] == []
    assert choices(store, "errors|", "request")[1] == []
    assert choices(store, 'apiName == "Sasl|', "request")[1] == []
    assert (
        "records"
        not in choices(store, 'apiName == "Produce" && request.topicData[0].partitionData[0].rec|', "request")[1]
    )


def test_nothing_is_offered_right_behind_a_value(store: Recorded) -> None:
    for text in ("latencyMs > 1|", 'apiName == "Fetch"|', "size(errors)|", "apiKey in [1]|"):
        assert choices(store, text)[1] == [], text


def test_chosen_values_make_a_filter(store: Recorded) -> None:
    _, texts = choices(store, "clientId == |")
    assert texts
    for text in texts:
        chosen = store.selected(Work(), Filter(f"clientId == {text}").condition)
        assert chosen is not None and len(chosen) > 0


def test_nothing_is_too_odd(store: Recorded) -> None:
    for text in ("", '"', "'''", "a.b.c.", ")))", "\\", "request.", "\ud800", "x" * 9_000, "[" * 500):
        for cursor in (0, len(text), 10**6):
            assert len(complete(store, Work(), text, cursor)["choices"]) <= 50
