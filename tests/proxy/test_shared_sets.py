"""What filters know in all workers: two of these stand for two workers, and what they send is handed over here."""

import asyncio

from kproxy.proxy.messages import Learned, Message
from kproxy.proxy.shared_sets import VALUES_A_MESSAGE, LearnedSets, SharedSets, in_parts


def test_what_is_added_in_a_turn_is_sent_in_one_message_and_once() -> None:
    sent: list[Message] = []

    async def add() -> None:
        sets = SharedSets("orders", sent.append)
        for value in ("a", "b", "a"):
            sets.named("ids").add(value)
        assert not sent
        await asyncio.sleep(0)
        sets.named("ids").add("b")
        sets.receive("ids", ["c"])
        sets.named("ids").add("c")
        await asyncio.sleep(0)
        assert sets.named("ids") is sets.named("ids")
        assert list(sets.named("ids")) == ["a", "b", "c"]

    asyncio.run(add())
    assert sent == [Learned("orders", "ids", ["a", "b"])]


def test_many_values_go_in_several_messages() -> None:
    values = [str(number) for number in range(2 * VALUES_A_MESSAGE + 1)]
    messages = list(in_parts("orders", "ids", values))
    assert [len(each.values) for each in messages] == [VALUES_A_MESSAGE, VALUES_A_MESSAGE, 1]
    assert [value for each in messages for value in each.values] == values


def test_the_supervisor_keeps_what_workers_that_start_later_need() -> None:
    learned = LearnedSets()
    for message in (Learned("a", "ids", ["1", "2"]), Learned("b", "ids", ["3"]), Learned("a", "ids", ["2", "4"])):
        learned.receive(message)
    assert list(learned.messages()) == [Learned("a", "ids", ["1", "2", "4"]), Learned("b", "ids", ["3"])]
    learned.forget_all_but(["b"])
    assert list(learned.messages()) == [Learned("b", "ids", ["3"])]
