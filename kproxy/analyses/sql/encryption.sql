/*
id: encryption
title: Which topics are encrypted, by which keys, since when, and who still writes plain values
severity: info
meaning: >-
  A row for each key, and version of it, that values of a topic were encrypted by (the filter encrypt), and one for its plain values. The
  same for its record keys and for headers of a name, if one of them is encrypted. The envelope of a value says which key wraps its data key; no key is needed to
  read it. Only topics with an encrypted value, record key or header are listed.
  The version is known of key sets and of Vault. It needs the contents of records (--records, or --only encryption), and a capture between kproxy and the brokers: clients of kproxy send
  and get plain values. With --keys it also says how many open, and why the others do not.
  A value with an encrypted field counts as encrypted by the key of its first one; one without any counts as plain.
columns:
  topic: ""
  part: value or key of records, or "header " and the name of a header
  key_name: name of the key that wraps the data keys; NULL for plain ones
  key_version: version of that key; NULL where the key service does not say
  first_at: ""
  writers: client ids that wrote them
  is_late: whether plain values were written after the first encrypted one
  is_older: whether a newer version of the key was seen in any topic, so that these records rest on one that was rotated
  produced: values, keys or headers, written
  fetched: values, keys or headers, read
  unopened: values, keys or headers that do not open; without --keys, all
  problem: why some of them do not open; without --keys, which key they take
  readers: client ids that read them
  data_keys: different data keys
  opened: values, keys or headers that open by the keys that --keys names; 0 without it
  other_topic: another topic that they were written to; they open only where a rule says so
  damaged: values that begin as encrypted ones and are none
  last_at: ""
  cluster: its id, else the first address of its brokers
action: Send the writers of plain values through kproxy; keep the older versions of a key until the last record that rests on them is gone.
parameters: {}
sampled: Other keys, writers and readers may be among the exchanges that are missing.
verdict: "{count topic:topic/topics} with encrypted values, by {count key_name:key/keys}[{rows where is_late=true:?}; plain ones written since in {count topic where is_late=true:topic/topics}, most by {writers where is_late=true}][{rows where is_older=true:?}; {count topic where is_older=true:topic/topics} with records that rest on an older version of a key][{sum unopened:?}; {sum unopened:,} do not open: {max problem:160}|; all of them open]; most values: {topic}"
order: 47
only_if: FROM records LEFT JOIN unnest(headers) AS headers(header) ON true WHERE hex(value_envelope) <> '' OR hex(key_envelope) <> '' OR hex(header.envelope) <> ''
*/
WITH parts AS ( -- envelope: NULL of a plain one, empty of a damaged one
    SELECT connection_id, exchange, coalesce(topic, topic_id) AS topic, direction, 'value' AS part, hex(value_envelope) AS h,
        CASE WHEN hex(value_envelope) = '' OR substring(hex(value_envelope), 12, 1) <> '0' OR starts_with(hex(value), 'C34B5045') THEN value_problem END AS problem
    FROM records
    WHERE value IS NOT NULL
    UNION ALL
    SELECT connection_id, exchange, coalesce(topic, topic_id), direction, 'key', hex(key_envelope),
        CASE WHEN starts_with(hex(key), 'C34B5045') THEN key_problem END
    FROM records
    WHERE key IS NOT NULL
    UNION ALL
    SELECT connection_id, exchange, coalesce(topic, topic_id), direction, 'header ' || coalesce(try(decode(header.key)), hex(header.key)), hex(header.envelope), header.problem
    FROM records CROSS JOIN unnest(headers) AS headers(header)
    WHERE header.value IS NOT NULL
), marked AS (
    SELECT e.cluster, p.topic, p.direction, p.part, e.client_id, e.at_us, e.seen_at, p.problem, p.h, p.h IS NOT NULL AS is_encrypted, p.h = '' AS is_damaged
    FROM parts AS p
    JOIN client_exchanges AS e ON e.connection_id = p.connection_id AND e.exchange = p.exchange
    WHERE coalesce(e.replica_id, -1) < 0
), named AS ( -- the envelope, in hex: marker, version, part, size, key name, topic, wrapped data key (kproxy.encryption)
    SELECT *, CASE WHEN h <> '' THEN TRY_CAST('0x' || substring(h, 17, 2) AS INTEGER) END AS name_bytes
    FROM marked
), placed AS (
    SELECT *, TRY_CAST('0x' || substring(h, 19 + 2 * name_bytes, 2) AS INTEGER) AS topic_bytes
    FROM named
), opened AS (
    SELECT cluster, topic, direction, part, client_id, at_us, seen_at, problem, is_encrypted, is_damaged,
        try(decode(unhex(substring(h, 19, 2 * name_bytes)))) AS key_name,
        try(decode(unhex(substring(h, 21 + 2 * name_bytes, 2 * topic_bytes)))) AS written_to,
        substring(h, 25 + 2 * (name_bytes + topic_bytes)) AS wrapped
    FROM placed
), versioned AS (
    SELECT *, CASE
        WHEN starts_with(wrapped, '01') AND length(wrapped) = 130 THEN TRY_CAST('0x' || substring(wrapped, 3, 8) AS BIGINT)
        WHEN starts_with(wrapped, '7661756C743A76')
            THEN TRY_CAST(regexp_extract(try(decode(unhex(wrapped))), '^vault:v([0-9]{1,9}):', 1) AS BIGINT)
        END AS key_version
    FROM opened
), topics AS (
    SELECT cluster, topic, part, min(CASE WHEN direction = 'produce' THEN at_us END) AS since_us
    FROM versioned
    WHERE key_name IS NOT NULL
    GROUP BY cluster, topic, part
), newest AS (
    SELECT cluster, key_name, max(key_version) AS key_version
    FROM versioned
    WHERE key_name IS NOT NULL
    GROUP BY cluster, key_name
), used AS (
    SELECT v.cluster, v.topic, v.part, v.key_name, v.key_version,
        count(CASE WHEN v.direction = 'produce' THEN 1 END) AS produced,
        count(CASE WHEN v.direction = 'fetch' THEN 1 END) AS fetched,
        count(DISTINCT v.wrapped) AS data_keys,
        list_sort(list_distinct(list(CASE WHEN v.direction = 'produce' THEN coalesce(v.client_id, '') END))) AS writers,
        list_sort(list_distinct(list(CASE WHEN v.direction = 'fetch' THEN coalesce(v.client_id, '') END))) AS readers,
        min(CASE WHEN v.written_to <> v.topic THEN v.written_to END) AS other_topic,
        count(CASE WHEN v.is_encrypted AND v.problem IS NULL AND NOT v.is_damaged THEN 1 END) AS opened,
        count(CASE WHEN v.is_encrypted AND (v.problem IS NOT NULL OR v.is_damaged) THEN 1 END) AS unopened,
        min(CASE WHEN v.is_encrypted THEN v.problem END) AS problem,
        count(CASE WHEN v.is_damaged THEN 1 END) AS damaged,
        count(CASE WHEN v.direction = 'produce' AND NOT v.is_encrypted AND v.at_us > t.since_us THEN 1 END) > 0 AS is_late,
        min(v.seen_at) AS first_at,
        max(v.seen_at) AS last_at
    FROM versioned AS v
    JOIN topics AS t ON t.cluster = v.cluster AND t.topic = v.topic AND t.part = v.part
    GROUP BY v.cluster, v.topic, v.part, v.key_name, v.key_version
)
SELECT u.topic, u.part, u.key_name, u.key_version, coalesce(u.key_version < n.key_version, false) AS is_older, u.produced, u.fetched,
    u.data_keys, u.writers, u.readers, u.other_topic, u.opened, u.unopened, u.problem, u.damaged, u.is_late, u.first_at, u.last_at, u.cluster
FROM used AS u
LEFT JOIN newest AS n ON n.cluster = u.cluster AND n.key_name = u.key_name
ORDER BY u.produced + u.fetched DESC, u.topic, u.part DESC, u.key_name, u.key_version, u.cluster
