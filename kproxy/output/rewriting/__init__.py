"""Frames with other contents of the same size: credentials withheld in every written capture, and ``--anonymize``.

rewriter.py   Rewriter: a frame decoded, changed and encoded; the base class withholds credentials only.
              WithoutRecords also withholds keys, values and headers of records
records.py    rewrites records fields; finds the message in a record of an internal topic
anonymize.py  Anonymizer and its pseudonyms: what --anonymize replaces and what it keeps, with reasons

To replace something else in frames, derive a class from Rewriter and override the methods below "What may be replaced beyond
credentials". Secret fields are marked in kproxy.protocol.secrets; anonymize.py lists the fields that keep their values.
"""
