#!/bin/bash
# psql: \copy both ways, descriptions, \gset, \gdesc, savepoints of its own.
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ask() { psql -X -A -t -q -v ON_ERROR_STOP=1 "$@" 2>&1; }
same() {
    local name=$1 wanted=$2
    shift 2
    local found
    found=$("$@")
    if [ "$found" = "$wanted" ]; then
        echo "ok $name"
    else
        failed=1
        echo "FAIL $name: $(head -3 <<<"$found" | tr '\n' ' ')"
    fi
}
has() {
    local name=$1 wanted=$2
    shift 2
    local found
    found=$("$@")
    if grep -qF -- "$wanted" <<<"$found"; then
        echo "ok $name"
    else
        failed=1
        echo "FAIL $name: $(head -3 <<<"$found" | tr '\n' ' ')"
    fi
}
ask -c "drop table if exists ps_t; create table ps_t (id int primary key, v text, n numeric(8,2) default 1)" >/dev/null
printf '1,"a,""b""",2.5\n2,,3\n' >"$work/in.csv"
ask -c "\\copy ps_t from '$work/in.csv' with (format csv)" >/dev/null
same copy-in '1|a,"b"|2.50
2||3.00' ask -c "select * from ps_t order by id"
ask -c "\\copy (select * from ps_t order by id) to '$work/out.csv' csv header" >/dev/null
same copy-out 'id,v,n
1,"a,""b""",2.50
2,,3.00' cat "$work/out.csv"
ask -c "\\copy ps_t to '$work/out.bin' with (format binary)" >/dev/null
ask -c "truncate ps_t" -c "\\copy ps_t from '$work/out.bin' with (format binary)" >/dev/null
same copy-binary "2|5.50" ask -c "select count(*), sum(n) from ps_t"
has describe-table "ps_t_pkey" psql -X -c '\d ps_t'
has list-tables "ps_t" psql -X -c '\dt'
has list-databases "$PGDATABASE" psql -X -c '\l'
has list-roles "$PGUSER" psql -X -c '\du'
has list-indexes "ps_t_pkey" psql -X -c '\di'
has list-functions "lower" psql -X -c '\df lower'
has list-schemas "public" psql -X -c '\dn'
has privileges "ps_t" psql -X -c '\dp'
has connection "connected to database" psql -X -c '\conninfo'
printf 'select 3 as three \\gset\nselect :three + 1;\n' >"$work/gset.sql"
same gset 4 ask -f "$work/gset.sql"
printf 'select id, v from ps_t \\gdesc\n' >"$work/gdesc.sql"
same gdesc 'id|integer
v|text' ask -f "$work/gdesc.sql"
same single-transaction 0 sh -c "psql -X -q -1 -v ON_ERROR_STOP=1 -c 'delete from ps_t' -c 'select 1/0' >/dev/null 2>&1; psql -X -A -t -c 'select count(*) - 2 from ps_t'"
same fetch-count "820" ask -v FETCH_COUNT=7 -c "select sum(g) from generate_series(1, 40) g"
has errors "22012" sh -c "psql -X -v VERBOSITY=sqlstate -c 'select 1/0' 2>&1"
printf '\\set ON_ERROR_ROLLBACK on\nbegin;\nselect 1/0;\ninsert into ps_t values (9);\ncommit;\nselect count(*) from ps_t where id = 9;\n' >"$work/rollback.sql"
same on-error-rollback 1 sh -c "psql -X -A -t -q -f '$work/rollback.sql' 2>/dev/null"
same several 'a
b' ask -c "select 'a'; select 'b'"
exit $failed
