"""Answers: from the two answers to a request, learns the new cluster's ids, then compares them."""

from dataclasses import dataclass
from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, response_message
from kproxy.replay.answered_ids import learn_ids
from kproxy.replay.assigned import HEARTBEATS
from kproxy.replay.comparing import Comparison, compare
from kproxy.replay.identities import Place
from kproxy.replay.learned import Learned
from kproxy.replay.recording import Recorded
from kproxy.replay.reshaping import FIRST_OF_SEVERAL, OF_ANSWERS, several
from kproxy.replay.result import Outcome, Result
from kproxy.replay.rewriting import Ready
from kproxy.replay.versions import name_topics

Pair = tuple[Any, Any]  # recorded, now


@dataclass
class Answers:
    """Learns ids from the answers of one replay, and compares them with the recorded ones."""

    learned: Learned
    result: Result

    def take(self, recorded: Recorded, ready: Ready, answer: Any) -> None:
        """Learn from a decoded answer, and note where it differs from the recorded one."""
        response, old = recorded.response, recorded.answer()
        if response is None or old is None:
            self.result.note(recorded, Outcome.NOT_RECORDED)
            return
        try:
            request = recorded.body()
        except DecodeError:
            self.result.note(recorded, Outcome.NOT_RECORDED)
            return
        versions = (response.body_version, ready.encoded.version)
        if versions[0] != versions[1]:
            versions = self._in_one_form(recorded, (request, ready.body), (old, answer), versions)
        comparison = self._compared(recorded, request, (old, answer), versions)
        if recorded.api_key in HEARTBEATS:
            other = self.learned.assigned.difference(recorded, answer)
            comparison.differences += [other] if other is not None else []
        self._note(recorded, comparison)

    def finish(self) -> None:
        """Compare the records that were read, which are compared over all answers together."""
        for connection, difference in self.learned.fetched.differences():
            self.result.note_fetched(connection, difference)
        if self.learned.fetched.is_full:
            self.result.notes["more records were read than are compared"] += 1

    def _compared(self, recorded: Recorded, request: Any, answers: Pair, versions: tuple[int, int]) -> Comparison:
        """Learn from both answers, brought into the same form, and compare them."""
        learned = self.learned
        message = response_message(recorded.api_key)
        assert message is not None
        place = learned.identities.place(request, Place())
        learn_ids(learned.identities, message.name, *answers, place)
        if recorded.api_key == ApiKey.JOIN_GROUP:
            learned.generations.note_leader(recorded, *answers)
        if recorded.api_key == ApiKey.FETCH:
            learned.fetch_sessions(recorded).learn(request, *answers)
            return learned.fetched.add(recorded.connection, *answers)
        return compare(message.name, *answers, versions, learned.identities, place)

    def _in_one_form(
        self, recorded: Recorded, requests: Pair, answers: Pair, versions: tuple[int, int]
    ) -> tuple[int, int]:
        """Make answers of two versions comparable; return the versions to compare them as."""
        for names, answer in zip((self.learned.plan.recording.names, self.learned.names()), answers, strict=True):
            name_topics(answer, names)
        if recorded.api_key not in OF_ANSWERS:
            return versions
        for request, answer, version in zip(requests, answers, versions, strict=True):
            several(recorded.api_key, request, answer, version)
        newest = max(*versions, FIRST_OF_SEVERAL[recorded.api_key])
        return newest, newest

    def _note(self, recorded: Recorded, comparison: Comparison) -> None:
        self.result.left_out.update(comparison.left_out)
        self.result.note(recorded, Outcome.DIFFERENT if comparison.differences else Outcome.SAME)
        for difference in comparison.differences:
            self.result.note_difference(recorded, difference)
