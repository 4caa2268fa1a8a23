"""Examples in docstrings print what they show."""

import doctest
from pathlib import Path

import pytest

import kproxy
import kproxy.pipeline.reading
import kproxy.protocol

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    kproxy.pipeline.reading.read: {"kproxy": kproxy},
    kproxy.protocol: {"message": kproxy.protocol.message},
}


@pytest.mark.parametrize("shown", EXAMPLES, ids=lambda shown: shown.__name__)
def test_an_example_prints_what_is_shown(shown: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = shown.__doc__ or ""
    session = doctest.DocTestParser().get_doctest(text, dict(EXAMPLES[shown]), "docstring", None, 0)
    assert len(session.examples) >= 4
    results = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(session)
    assert results.failed == 0
