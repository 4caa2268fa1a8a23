/*
id: diff
title: What changed between two captures, or two times
severity: info
meaning: >-
  New and lost clients, and changes of software, API versions, rates, errors, sizes and latency. Two captures are compared with each other; of one
  source, the first half of its time with the second, or --before with --after. A small p is a hint, not a proof: requests of a client depend on
  each other, and of a hundred comparisons about one is significant by chance at alpha 0.01.
columns:
  aspect: "rate: requests a second; errors: share of requests with an error code; size: bytes of request and response; latency: without requests that the broker may hold by design, as in the analysis latency"
  client_id: ""
  api_name: ""
  before_text: software or versions before
  after_text: software or versions after
  before_value: value before, in the unit
  after_value: value after, in the unit
  unit: unit of before_value and after_value
  change: "relative to before: 0.1 is a tenth more"
  p: how probable such a difference would be without a change
  is_significant: p below alpha, min_requests on both sides, and a change of at least min_change
  method: "errors: two proportions; rate: two Poisson rates; size and latency: Mann-Whitney U"
  superiority: probability that a value after is greater than one before
  change_kind: new, lost, changed, lower, more, less, same
  principal: ""
  before_requests: requests compared, before
  after_requests: requests compared, after
  z: statistic of the test, in standard deviations
  words: the row in one sentence
action: Look at lost clients and lower versions first, then at significant changes of errors and latency.
parameters:
  alpha: {default: 0.01, most: 1, meaning: p below which a difference counts.}
  min_requests: {default: 20, meaning: Requests on each side below which nothing is compared.}
  min_change: {default: 0.1, meaning: "Change below which a difference does not count: 0.1 is a tenth."}
verdict: "[{rows where change_kind=new:new client/new clients}, ][{rows where change_kind=lost:lost client/lost clients}, ][{rows where aspect=version:other API version/other API versions}, ]{rows where is_significant=true:significant change/significant changes}; first: {words}"
otherwise: No difference was found where both sides have enough requests.
order: 90
default: false
*/
WITH sided AS (
  SELECT s.side,
    coalesce(c.client_id, '') AS client_id,
    coalesce(c.principal, '') AS principal,
    concat_ws(' ', c.software, c.software_version) AS software,
    coalesce(e.api_name, 'API ' || CAST(e.api_key AS VARCHAR)) AS api_name,
    e.api_version,
    epoch_us(e.request_at) AS micros,
    CASE WHEN len(e.error_codes) > 0 THEN 1 ELSE 0 END AS failed,
    e.request_size + coalesce(e.response_size, 0) AS bytes,
    CASE WHEN a.kind = 'work' THEN a.micros END AS latency
  FROM exchanges e
  LEFT JOIN answered_exchanges a ON a.connection_id = e.connection_id AND a.exchange = e.exchange
  JOIN sides s ON s.connection_id = e.connection_id AND e.request_at >= s.from_at AND e.request_at < s.to_at
  JOIN clients c ON c.connection_id = e.connection_id
  WHERE e.request_at IS NOT NULL AND e.api_key IS NOT NULL AND c.role = 'client'
), spans AS (
  SELECT
    max(CASE WHEN side = 'before' THEN micros END) - min(CASE WHEN side = 'before' THEN micros END) AS before_micros,
    max(CASE WHEN side = 'after' THEN micros END) - min(CASE WHEN side = 'after' THEN micros END) AS after_micros
  FROM sided
), by_client AS (
  SELECT client_id, principal,
    count(CASE WHEN side = 'before' THEN 1 END) AS n1,
    count(CASE WHEN side = 'after' THEN 1 END) AS n2,
    array_to_string(sorted_set(CASE WHEN side = 'before' THEN nullif(software, '') END), ', ') AS software1,
    array_to_string(sorted_set(CASE WHEN side = 'after' THEN nullif(software, '') END), ', ') AS software2
  FROM sided
  GROUP BY client_id, principal
), by_api AS (
  SELECT client_id, principal, api_name,
    count(CASE WHEN side = 'before' THEN 1 END) AS n1,
    count(CASE WHEN side = 'after' THEN 1 END) AS n2,
    sum(CASE WHEN side = 'before' THEN failed ELSE 0 END) AS f1,
    sum(CASE WHEN side = 'after' THEN failed ELSE 0 END) AS f2,
    min(CASE WHEN side = 'before' THEN api_version END) AS low1,
    max(CASE WHEN side = 'before' THEN api_version END) AS high1,
    min(CASE WHEN side = 'after' THEN api_version END) AS low2,
    max(CASE WHEN side = 'after' THEN api_version END) AS high2
  FROM sided
  GROUP BY client_id, principal, api_name
),
-- Mann-Whitney: twice the mean rank of each value, so that ranks are whole numbers.
samples AS (
  SELECT side, client_id, principal, api_name, 'latency' AS aspect, latency AS value FROM sided WHERE latency IS NOT NULL
  UNION ALL
  SELECT side, client_id, principal, api_name, 'size', bytes FROM sided
), ranked AS (
  SELECT s.*,
    2 * rank() OVER (PARTITION BY client_id, principal, api_name, aspect ORDER BY value)
      + count(*) OVER (PARTITION BY client_id, principal, api_name, aspect, value) - 1 AS rank2,
    count(*) OVER (PARTITION BY client_id, principal, api_name, aspect, value) AS ties
  FROM samples s
), sums AS (
  SELECT client_id, principal, api_name, aspect,
    CAST(count(CASE WHEN side = 'before' THEN 1 END) AS DOUBLE) AS n1,
    CAST(count(CASE WHEN side = 'after' THEN 1 END) AS DOUBLE) AS n2,
    CAST(sum(CASE WHEN side = 'after' THEN rank2 ELSE 0 END) AS DOUBLE) / 2 AS ranks2,
    CAST(sum(CAST(ties * ties - 1 AS DECIMAL(38, 0))) AS DOUBLE) AS tied,
    quantile_cont(CASE WHEN side = 'before' THEN value END, 0.5) AS median1,
    quantile_cont(CASE WHEN side = 'after' THEN value END, 0.5) AS median2
  FROM ranked
  GROUP BY client_id, principal, api_name, aspect
), whitney AS (
  SELECT s.*,
    ranks2 - n2 * (n2 + 1) / 2 AS u,
    n1 * n2 / 12 * ((n1 + n2 + 1) - tied / ((n1 + n2) * (n1 + n2 - 1))) AS variance
  FROM sums s
  WHERE n1 >= greatest($min_requests, 1) AND n2 >= greatest($min_requests, 1)
), numbers AS (
  SELECT client_id, principal, api_name, aspect,
    CASE WHEN aspect = 'latency' THEN median1 / 1000 ELSE median1 END AS before_value,
    CASE WHEN aspect = 'latency' THEN median2 / 1000 ELSE median2 END AS after_value,
    n1, n2,
    CASE WHEN aspect = 'latency' THEN 'ms, median' ELSE 'bytes, median' END AS unit,
    'Mann-Whitney U' AS method,
    CASE WHEN variance > 0 THEN (u - n1 * n2 / 2) / sqrt(variance) ELSE 0 END AS z,
    u / (n1 * n2) AS superiority
  FROM whitney
  UNION ALL
  SELECT client_id, principal, api_name, 'errors', f1 / n1, f2 / n2, n1, n2, 'share', 'two proportions',
    CASE
      WHEN f1 + f2 = 0 OR f1 + f2 = n1 + n2 THEN 0
      ELSE (f2 / n2 - f1 / n1) / sqrt((f1 + f2) / (n1 + n2) * (1 - (f1 + f2) / (n1 + n2)) * (1.0e0 / n1 + 1.0e0 / n2))
    END,
    CAST(NULL AS DOUBLE)
  FROM by_api
  WHERE n1 >= greatest($min_requests, 1) AND n2 >= greatest($min_requests, 1) AND f1 + f2 > 0
  UNION ALL
  SELECT
    a.client_id, a.principal, a.api_name, 'rate', a.n1 * 1e6 / t.before_micros, a.n2 * 1e6 / t.after_micros, a.n1, a.n2, 'requests/s', 'two Poisson rates',
    (a.n2 * 1e6 / t.after_micros - a.n1 * 1e6 / t.before_micros)
      / sqrt(a.n1 * 1e12 / (CAST(t.before_micros AS DOUBLE) * t.before_micros) + a.n2 * 1e12 / (CAST(t.after_micros AS DOUBLE) * t.after_micros)),
    CAST(NULL AS DOUBLE)
  FROM by_api a
  CROSS JOIN spans t
  WHERE a.n1 >= greatest($min_requests, 1) AND a.n2 >= greatest($min_requests, 1) AND t.before_micros > 0 AND t.after_micros > 0
), tested AS (
  SELECT n.*,
    -- two-sided p of z: Abramowitz and Stegun 26.2.17, exact to 0.0000001
    least(1.0e0, 2 * exp(-z * z / 2) / sqrt(2 * pi()) * (
      0.319381530e0 * k - 0.356563782e0 * k * k + 1.781477937e0 * k * k * k - 1.821255978e0 * k * k * k * k
      + 1.330274429e0 * k * k * k * k * k)) AS p,
    (after_value - before_value) / nullif(abs(before_value), 0) AS change
  FROM (SELECT m.*, 1 / (1 + 0.2316419e0 * abs(z)) AS k FROM numbers m) n
), every AS (
  SELECT 1 AS aspect_order, 'client' AS aspect, CASE WHEN n1 = 0 THEN 'new' ELSE 'lost' END AS change_kind, client_id, principal,
    CAST(NULL AS VARCHAR) AS api_name, nullif(software1, '') AS before_text, nullif(software2, '') AS after_text,
    CAST(n1 AS DOUBLE) AS before_value, CAST(n2 AS DOUBLE) AS after_value, CAST(NULL AS DOUBLE) AS change, 'requests' AS unit,
    n1, n2, CAST(NULL AS VARCHAR) AS method, CAST(NULL AS DOUBLE) AS z, CAST(NULL AS DOUBLE) AS p, CAST(NULL AS DOUBLE) AS superiority,
    false AS is_significant
  FROM by_client WHERE n1 = 0 OR n2 = 0
  UNION ALL
  SELECT 2, 'software', 'changed', client_id, principal, CAST(NULL AS VARCHAR), nullif(software1, ''), nullif(software2, ''),
    CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), CAST(NULL AS VARCHAR), n1, n2, CAST(NULL AS VARCHAR),
    CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), false
  FROM by_client WHERE n1 > 0 AND n2 > 0 AND software1 <> software2
  UNION ALL
  SELECT 3, 'version', CASE WHEN high2 < high1 THEN 'lower' ELSE 'changed' END, client_id, principal, api_name,
    'v' || CAST(low1 AS VARCHAR) || CASE WHEN high1 > low1 THEN '-' || CAST(high1 AS VARCHAR) ELSE '' END,
    'v' || CAST(low2 AS VARCHAR) || CASE WHEN high2 > low2 THEN '-' || CAST(high2 AS VARCHAR) ELSE '' END,
    CAST(high1 AS DOUBLE), CAST(high2 AS DOUBLE), CAST(NULL AS DOUBLE), 'version', n1, n2, CAST(NULL AS VARCHAR),
    CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), false
  FROM by_api WHERE n1 > 0 AND n2 > 0 AND (low1 <> low2 OR high1 <> high2)
  UNION ALL
  SELECT CASE aspect WHEN 'errors' THEN 4 WHEN 'latency' THEN 5 WHEN 'rate' THEN 6 ELSE 7 END, aspect,
    CASE WHEN after_value > before_value THEN 'more' WHEN after_value < before_value THEN 'less' ELSE 'same' END, client_id, principal, api_name,
    CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), before_value, after_value, change, unit, CAST(n1 AS BIGINT), CAST(n2 AS BIGINT), method, z, p,
    superiority, p < $alpha AND (change IS NULL OR abs(change) >= $min_change)
  FROM tested
)
SELECT aspect, change_kind,
  nullif(client_id, '') AS client_id,
  nullif(principal, '') AS principal,
  api_name, before_text, after_text,
  round(before_value, 4) AS before_value,
  round(after_value, 4) AS after_value,
  unit,
  round(change, 3) AS change,
  n1 AS before_requests, n2 AS after_requests, method,
  round(z, 2) AS z,
  round(p, 4) AS p,
  round(superiority, 3) AS superiority,
  is_significant,
  
    coalesce(nullif(client_id, ''), '(no client id)') ||
    CASE WHEN api_name IS NOT NULL THEN ' ' || api_name ELSE '' END ||
    CASE aspect
      WHEN 'client' THEN ' is ' || change_kind
      WHEN 'software' THEN ' was ' || coalesce(before_text, 'unknown') || ', is ' || coalesce(after_text, 'unknown')
      WHEN 'version' THEN ' ' || before_text || ' -> ' || after_text
      ELSE ' ' || aspect || ' ' || CAST(CAST(round(before_value, 2) AS DECIMAL(20, 2)) AS VARCHAR) || ' -> ' ||
        CAST(CAST(round(after_value, 2) AS DECIMAL(20, 2)) AS VARCHAR) || ' ' || unit
    END
   AS words
FROM every
ORDER BY aspect_order, CASE WHEN is_significant THEN 0 ELSE 1 END, coalesce(p, 0), change_kind, client_id, principal, api_name
