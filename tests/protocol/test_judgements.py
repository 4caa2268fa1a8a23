"""Judgements: every API has one, and extraction refuses an API without."""

import re

from click.testing import CliRunner
from pytest import MonkeyPatch

from kproxy.extract import __main__ as extraction
from kproxy.protocol import facts
from kproxy.protocol.data_files import read_data_file
from kproxy.protocol.judgements import apis_for_replay, judgements


def test_every_api_has_a_judgement_and_there_are_no_others() -> None:
    assert judgements().keys() == {api.name for api in facts().apis.values()}


def test_what_no_broker_serves_to_clients_is_internal() -> None:
    controllers = {key for key, api in facts().apis.items() if "broker" not in api.listeners}
    assert controllers and controllers <= apis_for_replay("internal")


def test_extraction_refuses_an_api_without_a_judgement(monkeypatch: MonkeyPatch) -> None:
    new = re.sub(r"^(api \d+ )Heartbeat ", r"\1NewApi ", read_data_file("facts.txt"), flags=re.MULTILINE)
    monkeypatch.setattr(extraction, "facts_of", lambda jars: new)
    run = CliRunner().invoke(extraction.main, ["--check"])
    assert run.exit_code == 2
    assert run.stderr == "error: add a line to kproxy/protocol/api_judgements.txt for NewApi\n"
