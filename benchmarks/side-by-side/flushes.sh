#!/bin/sh
# Counts the flushes that each engine asks of the kernel in a short run of updates, with strace, beside its transactions.
#
#   ./flushes.sh PROGRAM DIR [CLIENTS] [ENGINE...]
#
# LMDB makes its meta page durable by a write through a descriptor opened with O_DSYNC: such writes are counted, too.
set -eu
program=$1 directory=$2 clients=${3:-16}
[ $# -gt 3 ] && shift 3 || set -- isles fjall fjall-group redb redb-group heed rusqlite postgres
traced=fsync,fdatasync,openat,open,pwrite64
printf '%-12s %8s %12s %8s %9s %8s\n' engine clients transactions fsync fdatasync O_DSYNC
for engine in "$@"; do
    calls=$directory/flushes-$$.calls result=$directory/flushes-$$.json
    strace -f -qq -e "trace=$traced" -e signal=none -o "$calls" "$program" --engines "$engine" --clients "$clients" \
        --operations update --rounds 1 --seconds 1 --rows 10000 --path "$directory" --json >"$result" 2>/dev/null
    transactions=$(sed 's/.*"transactions":\([0-9]*\).*/\1/' "$result")
    descriptor=$(sed -n 's/.*O_DSYNC.* = \([0-9][0-9]*\)$/\1/p' "$calls" | head -n 1)
    synchronous() { if [ -n "$descriptor" ]; then count " pwrite64($descriptor,"; else echo 0; fi; }
    count() { grep -c "$1" "$calls" || true; }
    printf '%-12s %8s %12s %8s %9s %8s\n' "$engine" "$clients" "$transactions" "$(count ' fsync(')" \
        "$(count ' fdatasync(')" "$(synchronous)"
    rm -f "$calls" "$result"
done
