"""Keys and values of records by their schemas: Avro, Protobuf and JSON Schema, as producers' serializers write them.

The way of a value, from its bytes to what people and programs see:

    framings.py   find_framing: which serializer wrote these bytes, the id of the schema, and where the payload begins. Pure
    store.py      Schemas: the schema of an id, a subject or a topic; asks its sources in turn, and compiles each once.
                  locate: a key or value with its schema, the one way in; read: its value; write: the bytes of another value
    fingerprints.py  which schema an Avro fingerprint is of
    journal.py    the topic of Apicurio Registry 3, whose records name no ids
    folder.py     a source: files of schemas, named by subject or id, or as `kproxy schemas --save` wrote them
    registry.py   a source: a registry that speaks Confluent's REST API, asked over HTTP within bounds
    formats.py    compile_schema: the schema as something that reads payloads to JSON values, and writes them
    avro.py, protobuf.py, json_schema.py   the three formats; each imports its library when a first schema needs it
    avro_values.py  AvroValues: JSON back to payloads of Avro, with the types of unions as they were
    walk.pyx      PayloadWalk: whether payloads of Avro and Protobuf fit their schema, and values in them hidden or marked,
                  without objects; marks.py: what is marked, changed
    fields.py     FieldEditor: texts and bytes at paths, changed where they stand, for the filter encrypt
    logical.py    Avro's logical types; readable.pyx: bytes and NaN as JSON has them
    viewer.py     SchemaViewer: all of it as a content viewer (kproxy.protocol.embedded); make_viewers: the one place where
                  viewers are made, for decode, the decoded log, the page and ``kproxy.read``
    settings.py   SchemaSources: what a person names, as plain values

A value that is written back keeps its framing, and all that JSON does not say: the types of unions, and fields that the schema
does not name. One that does not fit raises ValueMismatch, with its path. ``substituted`` puts another value of its kind in place
of each value in a payload, for anonymized captures.

``schemas.compiled(schema).problems(value)`` says what a value that could be read breaks of its JSON Schema, for the filter
``validate``; viewers show it, too.

A Schema is a text and never changes; the store owns all of them and what is compiled from them, at most MOST_SCHEMAS. Nothing
here knows sessions or exchanges.

The bytes and the schemas came from an attacker: a payload that does not fit its schema is shown as hex with the reason, and a
schema that cannot be compiled is a mark on the record. Nothing raises out of SchemaViewer.

To add a framing: find_framing. A format: a class that is formats.Compiled, and a row in formats.COMPILERS. A source: a class that
is store.Source, and an option in settings.py.
"""
