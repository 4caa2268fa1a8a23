/*
id: only_aborts
title: Producers that abort one transaction after the other
severity: warning
meaning: >
  The producer aborts all its transactions for a while and commits none in between: it works, and nothing that it writes can be read by
  read_committed consumers. Brokers refuse nothing of it: mostly it fails at the same record each time, aborts, and begins again with it. An abort now and then, as at a
  rebalance or a restart, is normal, and transactions without a record that was captured are left out.
basis:
  rests_on: EndTxn requests, whether they commit or abort
  certainty: said
  wrong_if: the program aborts on purpose, as a test does, or commits over a connection that was not captured
columns:
  transactional_id: of the producer
  aborts: transactions that were aborted, without a commit in between
  records: in these transactions, as captured
  seconds: from the first abort to the last
  ended: whether it committed afterwards
  cluster: ""
action: Read the log of the program for why it aborts; if it is one record, send it to a dead-letter topic.
reference: https://kafka.apache.org/documentation/#producerconfigs_transactional.id
parameters:
  min_aborts: {default: 5, least: 2, meaning: "Fewer aborts one after the other are not listed."}
  min_seconds: {default: 20, meaning: "Aborts within less are not listed."}
sampled: Commits may be among the exchanges that are missing.
verdict: "{count transactional_id:producer aborts/producers abort} one transaction after the other. {most aborts}: {transactional_id} of {client_id} at {client_address}, {aborts:abort/aborts} in {seconds:,} s without a commit in between[, with {records:record/records}]. Read its log for what it fails at."
order: 21
only_if: FROM exchanges WHERE api_key = 26 AND NOT committed HAVING count(*) >= $min_aborts
frame:
  order_by: aborts DESC, transactional_id, client_id, client_address, cluster, first_at
*/
WITH refused AS ( -- other findings are about these errors
    SELECT DISTINCT client_id, client_address FROM client_errors WHERE api_key IN (0, 22, 24, 25, 26, 28)
), ends AS (
    SELECT e.*, sum(CASE WHEN committed THEN 1 ELSE 0 END) OVER of_producer AS commits,
        lag(at_us) OVER of_producer AS before_us,
        max(CASE WHEN committed THEN at_us END) OVER (PARTITION BY e.client_id, e.client_address, cluster, transactional_id) AS last_commit_us
    FROM client_exchanges AS e
    LEFT JOIN refused AS r ON r.client_id IS NOT DISTINCT FROM e.client_id AND r.client_address = e.client_address
    WHERE api_key = 26 AND len(error_codes) = 0 AND (committed OR response_at IS NOT NULL) AND committed IS NOT NULL AND r.client_address IS NULL
    WINDOW of_producer AS (PARTITION BY e.client_id, e.client_address, cluster, transactional_id ORDER BY at_us, connection_id, exchange)
), runs AS (
    SELECT client_id, client_address, cluster, transactional_id, commits, max(software) AS software, count(*) AS aborts,
        min(coalesce(before_us, 0)) AS since_us, min(at_us) AS first_us, max(at_us) AS last_us, min(seen_at) AS first_at, max(seen_at) AS last_at,
        coalesce(max(last_commit_us) > max(at_us), false) AS ended, min(example_of(at_us, connection_id, exchange)) AS example
    FROM ends
    WHERE NOT committed
    GROUP BY client_id, client_address, cluster, transactional_id, commits
    HAVING count(*) >= $min_aborts AND max(at_us) - min(at_us) >= $min_seconds * 1000000
), written AS (
    SELECT r.client_id, r.client_address, r.cluster, r.transactional_id, r.commits, CAST(sum(b.count) AS BIGINT) AS records
    FROM runs AS r
    JOIN client_batches AS b ON b.client_id IS NOT DISTINCT FROM r.client_id AND b.client_address = r.client_address AND b.cluster = r.cluster
        AND b.direction = 'produce' AND b.is_transactional AND coalesce(b.error_code, 0) = 0 AND b.at_us > r.since_us AND b.at_us <= r.last_us
        AND coalesce(b.transactional_id, r.transactional_id) = r.transactional_id
    GROUP BY r.client_id, r.client_address, r.cluster, r.transactional_id, r.commits
)
SELECT r.client_id, r.client_address, r.software, r.transactional_id, r.aborts, w.records,
    (r.last_us - r.first_us) // 1000000 AS seconds, r.ended, r.cluster, r.first_at, r.last_at, r.example.connection_id AS connection_id,
    r.example.exchange AS exchange
FROM runs AS r
JOIN written AS w ON w.client_id IS NOT DISTINCT FROM r.client_id AND w.client_address = r.client_address AND w.cluster = r.cluster
    AND w.transactional_id = r.transactional_id AND w.commits = r.commits
