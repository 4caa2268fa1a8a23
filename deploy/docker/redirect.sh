#!/bin/sh
# Redirect connections to Kafka in this network namespace to kproxy (transparent mode), but not those of kproxy itself.
#
#     redirect [--ports 9092,9093] [--to 19092] [--uid 65532]
#
# --ports: the ports of the brokers. --to: where kproxy listens. --uid: the user kproxy runs as. Needs CAP_NET_ADMIN.
# Run again, it changes nothing: the rules are in a chain of their own, which is made anew.
set -eu

ports=9092 to=19092 uid=65532
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || { echo "redirect: $1 needs a value" >&2; exit 2; }
  case $1 in
    --ports) ports=$2 ;;
    --to) to=$2 ;;
    --uid) uid=$2 ;;
    *) echo "redirect: unknown option $1; known: --ports --to --uid" >&2; exit 2 ;;
  esac
  shift 2
done

for iptables in iptables ip6tables; do
  # A pod without IPv6 has no table for it.
  if ! $iptables -w -t nat -L OUTPUT >/dev/null 2>&1; then
    [ $iptables = ip6tables ] && continue
    echo "redirect: $iptables cannot change the nat table: is CAP_NET_ADMIN there?" >&2
    exit 1
  fi
  $iptables -w -t nat -N KPROXY 2>/dev/null || $iptables -w -t nat -F KPROXY
  $iptables -w -t nat -A KPROXY -m owner --uid-owner "$uid" -j RETURN
  $iptables -w -t nat -A KPROXY -p tcp -m multiport --dports "$ports" -j REDIRECT --to-ports "$to"
  $iptables -w -t nat -C OUTPUT -p tcp -j KPROXY 2>/dev/null || $iptables -w -t nat -A OUTPUT -p tcp -j KPROXY
done
echo "redirect: connections to ports $ports go to port $to, but those of user $uid"
