"""Frames with other contents of the same size: credentials withheld in every written capture, and ``--anonymize``.

rewriter.py          Rewriter: a frame decoded, changed and encoded; the base class withholds credentials only
records.py           records fields likewise
withheld_records.py  WithoutRecords: a Rewriter that withholds keys, values and headers of records too
tokens.py            SASL tokens without their secrets
internal_records.py  which message a record of an internal topic holds
anonymize.py         what --anonymize replaces and what it keeps, with reasons
pseudonyms.py        keyed pseudonyms of the same length
payload_texts.py     the names in payloads of Streams and Connect
sticky_topics.py     the topics in the sticky assignors' user data

To replace something else in frames, derive a class from Rewriter and override the methods below "What may be replaced beyond
credentials". Secret fields are marked in kproxy.protocol.secrets; anonymize.py lists the fields that keep their values.
"""
