"""Records that brokers cannot read: values or their fields, by choice keys and headers, are encrypted, and decrypted afterwards.

Each record carries all that it takes to decrypt it, except the key of the key service: brokers, mirrors and compaction move
records one by one.

    envelope.py     the format below: Envelope is written before and read from an encrypted field
    made_once.py    MadeOnce: what is made of names, as of headers, topics and fields
    fields.py       how an encrypted field of a value stands in a text, the name of its place, and where a value has one
    data_keys.py    DataKeys: which data key a topic is written with, and the data keys of records that are read
    editors.pyx     encrypt and decrypt values from one buffer into another
    batches.py      encrypt_batch, decrypt_batch: whole batches; policies for what cannot be decrypted
    reading.py      OutputKeys: fields of records in captures, for decode, sql, report and the page
    services/       what makes and unwraps data keys: contract.py says how, one module for each key service

The way of a key. A key service (a local file, Vault, a cloud's KMS) has key-encryption keys that never leave it, each with a
name. It makes data keys: 32 random bytes, which it also returns *wrapped*, that is encrypted with the named key. Records are
encrypted with a data key and carry it wrapped. To read them, kproxy has it unwrapped once and keeps it in memory for a while.
Record keys take a data key of their own that is not replaced: it stands, wrapped, in the rule.

The format, version 1. Numbers are big-endian; sizes are in bytes

    offset  size  what
    0       4     C3 4B 50 45: the marker. It is no UTF-8, no JSON, and no framing of a serializer begins like this
    4       1     the version: 1
    5       1     lower four bits: what is encrypted: 0 a value, 1 a record key, 2 the value of a header, 3 a text in a value,
                  4 bytes in a value;
                  upper four bits: how it is compressed: 0 not, 4 as one frame of zstd that says its content's size
    6       2     size of the envelope: from the marker to the end of the wrapped data key
    8       1     size of the key's name, then the name, UTF-8: the key of the service that wraps the data key
            1     size of the topic's name, then the name, UTF-8: the topic that the record was written to
            2     size of the wrapped data key, then its bytes, as the key service returned them
            12    nonce
            n     the encrypted bytes, as many as the plain ones, or as the compressed ones
            16    tag

    A record key has these after its envelope in place of the last three, and is not compressed:

            16    synthetic IV
            n     the encrypted bytes, as many as the plain ones

    Cipher of values, headers and fields: AES-256-GCM (NIST SP 800-38D). Associated data: the envelope as it stands; for a header,
    the size of its name (4) and the name; for a field, the size of its path (4) and the path, UTF-8; then 00 if the record has no
    key, else 01 and the plain key.

    A field of a value that stays a value of its schema: in place of bytes stands what is above, from the marker to the tag; in
    place of a text its base 64 (RFC 4648, 4, with padding), so it begins with w0tQRQED. Encrypted are the bytes, or the text in
    UTF-8; they are not compressed. The path is the normalized one of RFC 9535, 2.7, from the root of the value, with indexes of
    items and keys of maps: $['people'][0]['email']. Names are those of the schema.

    Cipher of record keys: AES-256-SIV (RFC 5297) without a nonce, as equal keys of a topic have to give equal bytes. Its 64 bytes
    of key are HKDF (RFC 5869) with SHA-512 of the data key, without salt, with the info "kproxy record keys of " and the topic's
    name. Associated data: one string, the envelope as it stands.

    A field without the marker is plain: a topic may have both. A null value is never encrypted, so tombstones stay tombstones,
    nor is a null key, a null field, or one that is not there; Protobuf does not write an empty text without presence. An empty
    value or key is encrypted. Headers are not compressed. Whatever begins with the marker and is no envelope, is damaged; so is
    a field with other first four bytes whose names and sizes are those of an envelope: its marker was changed.

    Why AES-256-GCM: it is the fastest here by far. At 64 KiB a value, `cryptography` encrypts 2,700 MB/s with it, 1,700 with
    ChaCha20-Poly1305, and 335 with AES-256-GCM-SIV, which is below what this filter has to reach. What GCM-SIV forgives, a nonce
    used twice, cannot happen here:

    A nonce is 4 random bytes, drawn for each batch, and a counter of 8 bytes. The counter belongs to the data key, and a data key
    encrypts in one process only, the one that had it made: a worker, or the same worker after a restart, has another made. What
    is unwrapped only decrypts. So no counter is used twice. The random bytes are for a process whose memory is copied while it
    runs (a snapshot of a virtual machine): its copies go on with the same key and counter.

    A data key is replaced after a number of records and an age (DataKeyLimits), at the latest after 2^32 values, or 2^32 blocks
    of 16 bytes (64 GiB; a value takes a block more than it fills, for its tag): an attacker's advantage over a random permutation
    is then still below 2^-64 (2^32 blocks of 16 bytes: 2^64 / 2^129).

What the associated data binds, and what it cannot

    Bound: the value to its plain record key, to the name of the topic, to the part (value, header of a name, field of a path),
    to the key's name and the data key; an encrypted record key to the topic, the key's name and its data key. Whoever can write
    to the broker's disk cannot change a value, move it to another record key, header, field or topic, without an error.
    Not bound: the partition and the offset, which are not known on Produce, and which mirrors and repartitioning change; the
    timestamp, which brokers set with LogAppendTime; headers to their value and to one another, as mirrors add some; the cluster,
    unless the name of the key has it (``{cluster}``). So an attacker with the broker's disk can
      delete records and headers, repeat old ones, and change their order, partition and time: under the same record key in the
          same topic, an old value stands for a new one. All records without a key have the same, none;
      put null in place of a value, as nulls are plain: compaction then deletes what is stored under that key;
      put plain records of his own into a topic, or change the marker and a size after it, so that an encrypted value is given
          out as it is: ``plain: fail`` of the filter refuses both, once all records of a topic are encrypted, but no nulls;
      have consumers stop at records that do not open, or wait for hundreds of data keys (``unreadable: skip`` leaves them
          out; a batch with more than 1,000 data keys is damaged as a whole, and the key service is asked for eight of them);
      have the key service asked for data keys that never were: eight at a time by each worker, each again after a minute. So
          can clients, by names of topics that the pattern of a rule has;
      move records to a topic of the same name in another cluster, where a rule names the same key;
      see record keys that stay plain, headers, times, sizes, the topic, the names of keys, and who writes when.
    A rule opens records of the key that it names, and of those that it names as ``other_keys``. Whoever may use one of those
    keys at the key service can write values that open.
    Mirrors that copy records as they are to a topic of another name (MirrorMaker's default adds the name of the cluster): the
    rule for that topic has to name the topics that its records come from (``written_to``). Clients that read and write through
    kproxy, such as Streams and Connect, encrypt again for the topic that they write to.

Who reads all the same

    Clients of kproxy: it decrypts for whoever reaches its listener and whom the broker lets read. Where clients log in at the
    brokers, whoever administers these can give himself a user and the right to read, and then read through kproxy. So have
    kproxy log clients in itself (``authentication``), say with the filter deny who may read, and let brokers' operators not
    reach its listener otherwise.
    Whoever answers Metadata in the place of brokers (their operators; on a network without ``broker_tls``, anybody): clients
    write by topic id, and kproxy knows their names from Metadata. An id with two names has none, and is refused. But a kproxy
    that was started in between, or has learned 200,000 other ids since, knows the second alone, and writes plain if no rule
    names that. A last rule for ``"*"`` leaves no topic plain.
    Whoever reads the memory of kproxy (root on its machine; a core dump, a swapped page) or its captures, or has its login at the
    key service.

Compression

    Encrypted bytes do not compress. With the option ``compress`` of a rule, each value of 64 bytes and more is compressed by zstd
    (level 1) before, if that makes it smaller. The batch keeps the codec that its producer chose, as consumers get it with that
    codec, and as the envelopes of its records are alike; zstd looks for nothing else there. Sizes then tell something about
    contents: who can have a text of his written next to a secret in one value, and sees sizes, can guess the secret bit by bit
    (CRIME). So ``compress`` is off unless a rule says it. What is decrypted decompresses to at most 64 MiB a batch, and a
    value to at most 1,000 times its size if that is more than 1 MiB: other values are damaged. So a value that would be written
    with less than a 64th of its size is not compressed: mirrors may put any values into one batch, and all batches of up to
    1 MiB, the default of message.max.bytes, open.

Record keys, and what still shows of them

    The log cleaner compares the stored bytes of record keys, and keeps the newest record of each. So their cipher is
    deterministic, and all workers, in all places and for as long as the topic has records, use the one data key that stands in
    the rule (``record_keys``). kproxy keeps nothing itself: keep the rule as you keep the key of the key service.
    An attacker with the broker's disk sees which records of a topic have the same key, how often each is written and when, and
    how long each is; not that two topics have the same, as each topic has a cipher key of its own. Where he knows how often the
    values of a key occur (a country, a surname), or can have a key of his choice written, he finds it by that: equality and
    frequency are what compaction needs, and no cipher hides them from it.
    The partition, too, tells something: clients choose it by the plain key, before kproxy sees the record, so by hash of the key
    with a seed that is known. Of a key with few possible values, it excludes some.
    Re-keying: each record key carries its wrapped data key, so those under an earlier one are still read while their key is one
    that the rule names (``key``, ``record_keys.key``, ``other_keys``). But compaction then sees two keys in place of each: the
    last record under the old one stays for ever, and a consumer gets both, the older first. A tombstone under the new one deletes
    nothing under the old one. The same happens when a topic goes from plain to encrypted keys or back, and if the wrapped data
    key is wrapped anew (``--rewrap``). A rotated key of the key service unwraps as before: nothing is to be done.
    AES-SIV is built on CMAC, for which NIST SP 800-38B recommends at most 2^48 messages a key.

What stays plain, and why

    Record keys where no rule says ``record_keys``. Streams groups by record keys: where a job makes keys of parts of values
    (``groupBy``), those parts are plain in its repartition and changelog topics then.
    Headers that no rule names: those that consumers, tracing, mirrors and deserializers use have to stay as they are, and the
    names of all do.
    What is no record: metadata of committed offsets, what members tell of themselves to groups, names of groups and clients.
    All of a value but the fields that its rule names, where it names some (``fields``): see below.

Fields of values, and what still shows of them

    A rule that names fields encrypts these, and nothing else of the value: names, other fields, which fields are there and how
    long each is. What stands next to a field tells much of it: a postcode and a date of birth name a person, a total and a
    discount name a price. Encrypt values where you can; fields are for brokers, connectors and jobs that have to read the others.
    A field has to stay a value of its schema. Texts and bytes can; numbers, enums, fixed, dates and other logical types, records,
    arrays and keys of maps cannot, and are refused. A text grows by a third and by 150 bytes and more, so whatever limits lengths
    refuses it: columns that connectors write to, maxLength of a JSON Schema (kproxy checks that one), validation in brokers.
    Patterns, dates as texts and rules of a registry (CEL) no longer fit either.
    A field is bound to its place in the value, the record key and the topic, not to the other fields: an attacker with the
    broker's disk can put an old field of the same record key and place into a new value, and change or delete plain fields.
    Programs that go round kproxy and move a field (a transformation of Connect, SQL of a stream) make it unreadable.
    A value whose schema is not known, or has no such field, is refused (``other_values``), as it would be written plain. In JSON
    without a schema, a member with another name is not found and stays plain: check the paths with a first record.

Keys, plain text and wrapped keys are in no message, log, metric or audit line: errors name the topic, partition, offset and the
name of the key.

To add a key service: services/. Another cipher or field: a new version number in envelope.py, and its layout above.
"""
