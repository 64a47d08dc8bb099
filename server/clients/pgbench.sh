#!/bin/bash
# pgbench: tables, TPC-B, simple updates and reads, in its three ways of asking.
bin=${PGBIN:-/usr/lib/postgresql/15/bin}
failed=0
check() {
    local name=$1
    shift
    if output=$("$@" 2>&1) && ! grep -qE 'number of failed transactions: [1-9]' <<<"$output"; then
        echo "ok $name"
    else
        failed=1
        echo "FAIL $name: $(grep -m 1 -E 'error|ERROR|fatal|failed' <<<"$output")"
    fi
}
balances() {
    local found
    found=$(psql -X -A -t -c "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
        (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)") || return 1
    [ "$found" = "t|t" ] || { echo "error: balances $found"; return 1; }
}
check init "$bin/pgbench" -i -s 1 -q
check init-steps "$bin/pgbench" -i -I dtGvpf -s 1 -q
for mode in simple extended prepared; do
    check "tpcb-$mode" "$bin/pgbench" -n -M $mode -c 4 -t 25 --max-tries=20
    check "update-$mode" "$bin/pgbench" -n -N -M $mode -c 4 -t 25 --max-tries=20
    check "select-$mode" "$bin/pgbench" -n -S -M $mode -c 4 -t 100
done
check tpcb-once "$bin/pgbench" -n -M prepared -c 8 -t 20
script=$(mktemp)
cat >"$script" <<'SCRIPT'
\set n random(1, 100)
begin;
\startpipeline
select abalance from pgbench_accounts where aid = :n;
select 1;
\endpipeline
commit;
select :n as m \gset
SCRIPT
check pipeline "$bin/pgbench" -n -M extended -f "$script" -c 2 -t 20
rm -f "$script"
check balances balances
exit $failed
