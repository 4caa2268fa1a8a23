/*
id: unauthorized_access
title: Requests that the broker refused for lack of permission
severity: warning
meaning: >
  The broker refused the request for lack of an ACL (..._AUTHORIZATION_FAILED). Possible causes: a permission that is missing after a deployment, a wrong
  topic or group name, or an attack.
basis:
  rests_on: ..._AUTHORIZATION_FAILED in answers
  certainty: said
  wrong_if: it is a probe that is meant to fail
columns:
  resource_type: topic, group, cluster, transactional_id or none
  resource: its name
  errors: refusals
  error_name: ""
action: Grant the operation to the principal with kafka-acls.sh, or correct the name in the client's configuration; if you do not know the client, find its owner.
reference: https://kafka.apache.org/documentation/#security_authz
parameters:
  min_errors: {default: 1, meaning: "Fewer refusals of a client for one resource and API are not listed."}
verdict: "{sum errors:request/requests} refused for lack of permission. {most errors}: {client_id} at {client_address}, user {user_name}, {api_name} on {resource_type} {resource}, {errors:time/times}. Grant the ACL, or correct the name."
order: 25
only_if: FROM errors WHERE error_code IN (29, 30, 31, 53, 65)
frame:
  group_by: [client_id, client_address, cluster, user_name, api_name, error_name, asked_for AS resource_type, resource]
  derived:
    resource: CASE WHEN resource_type = 'cluster' THEN 'kafka-cluster' ELSE resource END
  having: errors >= $min_errors
  order_by: errors DESC
*/
SELECT r.*,
    c.user_name,
    CASE
        WHEN r.resource_type <> 'none' THEN r.resource_type
        WHEN r.error_code = 29 THEN 'topic'
        WHEN r.error_code = 30 THEN 'group'
        WHEN r.error_code = 31 THEN 'cluster'
        WHEN r.error_code = 53 THEN 'transactional_id'
        ELSE 'none'
    END AS asked_for
FROM client_errors AS r
JOIN connections AS c ON c.connection_id = r.connection_id
WHERE r.error_code IN (29, 30, 31, 53, 65)
