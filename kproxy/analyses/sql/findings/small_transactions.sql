/*
id: small_transactions
title: Producers with a transaction for nearly every record
severity: notice
meaning: >
  Each transaction costs requests to its coordinator, a marker in each partition that it wrote to, and two or three records in the log
  of transactions. With a record or two in each, that is most of what the brokers do, and consumers skip as many markers as they read records.
basis:
  rests_on: EndTxn requests, and records in batches of transactions
  certainty: measured
  wrong_if: it also sends records over connections that were not captured
columns:
  transactional_id: of the producer
  transactions: that were ended
  records: that they had
  per_minute: transactions in its busiest minute
  cluster: ""
action: Commit after many records, or after a time (Kafka Streams does so each 100 ms); without a need for transactions, leave them out.
reference: https://kafka.apache.org/documentation/#producerconfigs_transactional.id
parameters:
  min_per_minute: {default: 120, meaning: "Producers with fewer transactions in their busiest minute are not listed."}
  most_records: {default: 2, meaning: "Producers with more records than this in a transaction, on average, are not listed."}
sampled: Batches may be among the exchanges that are missing.
verdict: "{count client_id:producer makes/producers make} a transaction for nearly each record. {most transactions}: {client_id} at {client_address} ended {transactions:transaction/transactions} with {records:record/records}. Put more records into each."
order: 48
only_if: FROM exchanges WHERE api_key = 26 HAVING count(*) >= $min_per_minute
frame:
  derived:
    first_at: first_at
    last_at: last_at
    connection_id: example.connection_id
    exchange: example.exchange
  order_by: transactions DESC, client_id, client_address, cluster
*/
WITH minutes AS (
    SELECT client_id, client_address, cluster, transactional_id, at_us // 60000000 AS minute, count(*) AS transactions,
        max(software) AS software, min(seen_at) AS first_at, max(seen_at) AS last_at, min(example_of(at_us, connection_id, exchange)) AS example
    FROM client_exchanges
    WHERE api_key = 26 AND len(error_codes) = 0 AND response_at IS NOT NULL
    GROUP BY client_id, client_address, cluster, transactional_id, at_us // 60000000
), ended AS (
    SELECT client_id, client_address, cluster, transactional_id, max(software) AS software,
        CAST(sum(transactions) AS BIGINT) AS transactions, max(transactions) AS per_minute, min(first_at) AS first_at, max(last_at) AS last_at,
        min(example) AS example
    FROM minutes
    GROUP BY client_id, client_address, cluster, transactional_id
    HAVING max(transactions) >= $min_per_minute
), written AS (
    SELECT client_id, client_address, cluster, transactional_id, CAST(sum(count) AS BIGINT) AS records
    FROM client_batches
    WHERE direction = 'produce' AND is_transactional AND coalesce(error_code, 0) = 0
    GROUP BY client_id, client_address, cluster, transactional_id
)
SELECT e.*, w.records
FROM ended AS e
JOIN written AS w ON w.client_id IS NOT DISTINCT FROM e.client_id AND w.client_address = e.client_address AND w.cluster = e.cluster
    AND w.transactional_id IS NOT DISTINCT FROM e.transactional_id
WHERE w.records <= e.transactions * $most_records
