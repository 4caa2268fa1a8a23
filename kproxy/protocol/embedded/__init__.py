"""Decode the payloads that clients and brokers put inside bytes and records fields.

    open_request(message_name, body, context)    -> list[Embedded]: the payloads of a request; open_response: those of a response
    holds_payloads(message_name)                 -> bool: whether a message has such fields
    open_records_fields(fields, where, context)  -> list[Embedded]: the records fields of the messages in RECORDS_OF

Map

    payload.py         Embedded (one decoded payload), Context (knowledge needed for decoding), Opening (collects payloads); the
                       tables of messages with payloads and with records
    group.py           member metadata and assignments by protocol type: consumer with its assignors, Streams, Connect
    sasl.py            tokens: mechanism, user name, outcome; never the secret
    telemetry.py       PushTelemetry, with the table of OpenTelemetry's fields; protobuf.py (the wire format)
    envelope.py        forwarded requests and responses, principal, address (KIP-590)
    records_field.py   records fields: batch headers, and the records of Kafka's own topics (__consumer_offsets and the like)
    viewers.py         keys and values of ordinary records as text, JSON, hex, or by a user's viewer
    reader.py          bounds-checked primitives for payloads without a schema

Any bytes give a value, or a DecodeError, which open_request and open_response report in place of the payload.

To add
    a payload           a module with a function ``open_x(data) -> dict`` that raises only DecodeError (reader.py has the
                        primitives); then an entry for the message in the tables REQUESTS or RESPONSES of payload.py
    a group protocol    group.py: its protocol type, a function for the metadata and one for the assignment
    a SASL mechanism    CLIENT_TOKENS and SERVER_TOKENS in sasl.py
    a record format     a viewer: see viewers.py
"""
