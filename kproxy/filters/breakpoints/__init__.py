"""Built in, where the configuration allows it (page.edits): requests and responses that a person stops, changes and lets go.

    breakpoint.py     Breakpoint: a condition in CEL and a direction; which APIs it can meet
    condition_steps.py  how many steps a condition takes at most, so that none is asked that would take too long
    filter.py         Breakpoints: the filter. What it stops is held by a Holder until there is a Decision
    decision.py       Stopped, Decision, Holder: what is asked of a person, and what is answered
    credentials.py    what cannot be stopped, as it carries credentials
    stopped_text.py   a stopped message as text to edit (Kafka's JSON, hex), and the message that edited text describes
    batches_json.py   the record batches in it as JSON, and back, with their CRC right
    batch_values.py   the values in that JSON
    text_places.py    where a field or a byte stands in edited text
    edit_lines.py     the line of the audit log for a message that was changed
    kept_rules.py     what was done to a message as a rule of the filter faults, in YAML

A breakpoint is no rule: a person sets it while a page is open, and it goes when the page has gone
(kproxy.proxy.supervisor.stopped).
The filter stands before all others: what a person sees of a request is what the client has sent, and what a person makes of a
response is what the client gets. A changed request still meets every filter behind: deny, audit, topic_prefix.

What a stop does to traffic

    Kafka's responses come in the order of their requests. A stopped request holds all that the client sends behind it on that
    connection, a stopped response all responses behind it. Nothing else waits. A stop ends by itself after page.hold (5 s), so
    that no consumer is taken for dead; the frame leaves as it came then. So it does once the client or the broker closes the
    connection, be it only in its own direction.

    What can be done with a stop

    resume    it goes on, byte for byte as it came
    replace   the changed message goes on: encoded at the same version, unknown tagged fields kept, the CRC of batches made right
    error     a request is answered with this error, and the broker never sees it; a response says it in place of what it said
    drop      the message is dropped. As no other response may take its place, all that follows in its direction on this
              connection is dropped as well; only a Produce with acks=0, which has no response, is dropped alone
    close     the connection is closed, both sides

What passes all the same is counted (events of the filter "breakpoints" in /filters): beyond page.most_stops or
page.most_stopped_size, larger than limits.held_frame_size or MOST_TEXT_SIZE, with credentials, while the process drains.
A breakpoint whose condition takes too long is given up (breakpoint.py): counted, logged, and said at it in the page.

Of a condition is asked first whether it cannot hold, as the header of the message and its connection are: such a message is not
decoded.
"""
