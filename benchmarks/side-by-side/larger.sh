#!/bin/sh
# Engines whose rows are four times their memory, each in a control group that bounds what it takes and what the operating system
# caches for it. Needs root, and control groups of version 1 or 2 with memory.
#
#   ./larger.sh PROGRAM DIR [MIB_OF_MEMORY] [ROUNDS] [SECONDS] [ENGINE...] | tee larger.json
#   PROGRAM --table larger.json
set -eu
program=$1 directory=$2 mib=${3:-320} rounds=${4:-3} seconds=${5:-10}
[ $# -gt 5 ] && shift 5 || set -- isles-pages fjall fjall-group redb redb-group rocksdb heed rusqlite
memory=$((mib << 20))
# Rows of 248 bytes.
rows=$((memory * 4 / 248))
if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/side-by-side-$$ bound=memory.limit_in_bytes
else
    group=/sys/fs/cgroup/side-by-side-$$ bound=memory.max
fi
mkdir "$group"
trap 'rmdir "$group"' EXIT
echo $memory >"$group/$bound"
round=1
while [ "$round" -le "$rounds" ]; do
    for engine in "$@"; do
        sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' - "$group" "$program" --engines "$engine" --operations update,read \
            --clients 16 --seconds "$seconds" --rounds 1 --first-round "$round" --rows $rows --memory $memory --path "$directory" --json ||
            echo "$engine failed, or needs more memory" >&2
    done
    round=$((round + 1))
done
