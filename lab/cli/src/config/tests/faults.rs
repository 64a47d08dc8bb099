//! Command lines that are refused, and what is said of each.

/// Command lines and the one line that answers each.
pub(super) const FAULTS: &[(&str, &str)] = &[
    (
        "tcpp",
        "WORKLOAD tcpp: unknown value (accepted: micro, ycsb, tpcb, tpcc, tatp, dependent, counter, lock, \
         ipc, memory)",
    ),
    (
        "tatp --seconds 1 --at hot=0.5:0.2",
        "--at hot=0.5:0.2: the moment is no number of seconds (accepted: SECONDS=CHANGE, a change being mix=NAME, hot=F:F, \
         multisite=F, fail-socket=N, split:N, merge:N or rearrange:N)",
    ),
    (
        "tatp --seconds 1 --at 0.5=colour=red",
        "--at 0.5=colour=red: unknown change (accepted: SECONDS=CHANGE, a change being mix=NAME, hot=F:F, multisite=F, \
         fail-socket=N, split:N, merge:N or rearrange:N)",
    ),
    (
        "tatp --seconds 1 --at 0.5=multisite=2",
        "--at 0.5=multisite=2: no share (accepted: multisite=F, 0 to 1)",
    ),
    (
        "tatp --seconds 1 --at 0.5=fail-socket=first",
        "--at 0.5=fail-socket=first: no number of a socket (accepted: fail-socket=N)",
    ),
    (
        "tatp --seconds 1 --at 0.5=fail-socket=2",
        "--at 0.5=fail-socket=2: no worker is on this socket (accepted: fail-socket=0 to 1)",
    ),
    (
        "tatp --seconds 1 --cores 2 --at 0.5=fail-socket=0",
        "--at 0.5=fail-socket=0: nobody would be left (accepted: workers on two sockets, or no fail-socket)",
    ),
    (
        "tatp --seconds 1 --at 0.5=fail-socket=0 --at 0.6=fail-socket=1",
        "--at 0.6=fail-socket=1: nobody would be left (accepted: workers on two sockets, or no fail-socket)",
    ),
    (
        "tatp --seconds 1 --deploy 2isl --at 0.5=fail-socket=0",
        "--at 0.5=fail-socket=0: other instances wait for those of the socket (accepted: --deploy 1isl)",
    ),
    (
        "tatp --seconds 1 --execution plp --at 0.5=rearrange=some",
        "--at 0.5=rearrange=some: no number of actions (accepted: rearrange:N)",
    ),
    (
        "micro --seconds 1 --execution plp --at 0.5=split:-1",
        "--at 0.5=split:-1: no number of actions (accepted: split:N)",
    ),
    (
        "micro --seconds 1 --at 0.5=merge:8",
        "--at 0.5=merge:8: workers own no partitions (accepted: --execution plp or atrapos)",
    ),
    (
        "micro --without announcements --execution plp",
        "--without announcements: only --execution atrapos announces (accepted: with --execution atrapos)",
    ),
    (
        "dependent --partitions 2",
        "--partitions 2: workers own no partitions (accepted: with --execution plp or atrapos)",
    ),
    (
        "dependent --execution plp --cores 8 --partitions 5",
        "--partitions 5: each of both tables has as many, one a worker, of 8 (accepted: naive, 1 to 4)",
    ),
    (
        "dependent --execution plp --cores 8 --partitions many",
        "--partitions many: no number of partitions (accepted: naive, 1 to 4)",
    ),
    (
        "dependent --execution plp --partition-placement model",
        "--partition-placement model: every worker has one of each table (accepted: with --partitions N)",
    ),
    ("micro --bins 401", "--bins 401: out of range (accepted: 1 to 400)"),
    (
        "tatp --seconds 1 --at 0.5=rearrange=80",
        "--at 0.5=rearrange=80: workers own no partitions (accepted: --execution plp or atrapos)",
    ),
    (
        "tatp --seconds 1 --execution atrapos --at 0.5=rearrange=80",
        "--at 0.5=rearrange=80: partitions follow the workload (accepted: --adaptive off or monitor)",
    ),
    (
        "tatp --seconds 1 --at 1=mix=full",
        "--at 1=mix=full: the run is over by then (accepted: a moment below 1)",
    ),
    (
        "tatp --transactions 9 --at 1=mix=full",
        "--at 1=mix=full: nobody knows how many seconds a number of transactions takes (accepted: --seconds instead of \
         --transactions)",
    ),
    (
        "tpcc --at 1=mix=GetAccessData",
        "--at 1=mix=GetAccessData: unknown mix (accepted: full, narrow, payment, new-order, order-status, delivery, \
         stock-level)",
    ),
    (
        "micro --at 1=mix=full",
        "--at 1=mix=full: this workload does not change so (accepted: hot=F:F, multisite=F)",
    ),
    ("counter --at 1=mix=full", "--at 1=mix=full: this workload does not change so (accepted: no --at)"),
    ("tpcc --at 1=hot=0.5:0.2", "--at 1=hot=0.5:0.2: this workload does not change so (accepted: mix=NAME)"),
    (
        "tpcc --mix payment --index-inserts off --durability none --at 1=mix=full",
        "--at 1=mix=full: this workload does not change so (accepted: mix=narrow, payment or new-order, or \
         --index-inserts on)",
    ),
    (
        "dependent --at 1=hot=0.5:0.2",
        "--at 1=hot=0.5:0.2: this workload does not change so (accepted: multisite=F)",
    ),
    ("tatp --subscribers 7", "--subscribers 7: out of range (accepted: 8 to 4000000000)"),
    (
        "tatp --mix payment",
        "--mix payment: unknown value (accepted: full, GetSubscriberData, GetNewDestination, GetAccessData, \
         UpdateSubscriberData, UpdateLocation, InsertCallForwarding, DeleteCallForwarding)",
    ),
    ("tpcb --branches 0", "--branches 0: out of range (accepted: 1 to 65535)"),
    ("tpcb --remote 101", "--remote 101: out of range (accepted: 0 to 100)"),
    ("tpcb --scale 0", "--scale 0: out of range (accepted: 0.00001 to 1000)"),
    (
        "tpcb --warehouses 2",
        "--warehouses: a flag of workload tpcc, not of tpcb (accepted: --branches, --remote, --scale, --remote-rows)",
    ),
    ("tpcc --cores 0", "--cores 0: out of range (accepted: 1 to 8)"),
    ("tpcc --cores 9", "--cores 9: out of range (accepted: 1 to 8)"),
    (
        "ycsb --like dbx1000 --row-lock word --deadlocks lists",
        "--deadlocks lists: words do not say who waits for whom (accepted: graph, or --row-lock latch)",
    ),
    ("tpcc --smt 1 --cores 5", "--cores 5: out of range (accepted: 1 to 4)"),
    ("tpcc --cores -1", "--cores -1: out of range (accepted: 1 to 8)"),
    ("tpcc --cores two", "--cores two: not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores 1.5", "--cores 1.5: not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores --json", "--cores --json: not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores=", "--cores \"\": not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores 99999999999999999999", "--cores 99999999999999999999: out of range (accepted: 1 to 8)"),
    ("tpcc --smt 3", "--smt 3: out of range (accepted: 1 to 2)"),
    ("tpcc --smt 0", "--smt 0: out of range (accepted: 1 to 2)"),
    (
        "tpcc --deploy 9isl",
        "--deploy 9isl: more instances than workers (accepted: 1isl to 8isl, core, socket, machine)",
    ),
    (
        "tpcc --cores 1 --deploy 2isl",
        "--deploy 2isl: more instances than workers (accepted: 1isl to 1isl, core, socket, machine)",
    ),
    ("tpcc --deploy 0isl", "--deploy 0isl: unknown value (accepted: 1isl to 8isl, core, socket, machine)"),
    ("tpcc --deploy isl", "--deploy isl: unknown value (accepted: 1isl to 8isl, core, socket, machine)"),
    ("tpcc --deploy +2isl", "--deploy +2isl: unknown value (accepted: 1isl to 8isl, core, socket, machine)"),
    (
        "counter --deploy 2isl",
        "--deploy 2isl: this workload stores nothing that could be divided (accepted: 1isl, machine)",
    ),
    (
        "tpcc --deploy 2isl --without bounded-spin",
        "--without bounded-spin: several instances need bounded waits (accepted: other optimisations, or one instance)",
    ),
    ("tpcc --placement near", "--placement near: unknown value (accepted: island, spread, mix, os)"),
    ("tpcc --memory far", "--memory far: unknown value (accepted: local, central, remote, hops=N)"),
    ("tpcc --memory hops=x", "--memory hops=x: unknown value (accepted: local, central, remote, hops=N)"),
    ("tpcc --memory hops=-1", "--memory hops=-1: unknown value (accepted: local, central, remote, hops=N)"),
    ("tpcc --engine paged --cc silo", "--cc silo: not with --engine paged (accepted: 2pl)"),
    ("lock --engine paged", "--engine paged: lock stores nothing (accepted: memory)"),
    (
        "tpcc --engine paged --pool 1g",
        "--pool 1g: not a number of bytes (accepted: 65536 to 64TiB, such as 256MiB)",
    ),
    (
        "tpcc --engine paged --pool 1KiB",
        "--pool 1KiB: out of range (accepted: 65536 to 64TiB, such as 256MiB)",
    ),
    (
        "tpcc --engine paged --pool 17GiB",
        "--pool 17GiB: more than the memory of this machine (accepted: up to 16384MiB)",
    ),
    (
        "tpcc --engine paged --index-inserts off --mix narrow",
        "--index-inserts off: a row in no index has no place in a page (accepted: on, or --engine memory)",
    ),
    (
        "tpcc --cc 2pl",
        "--cc 2pl: not with --engine memory (accepted: silo, tictoc, occ, mvcc, no-wait, wait-die, dl-detect, hstore)",
    ),
    (
        "tpcc --cc Silo",
        "--cc Silo: unknown value (accepted: silo, tictoc, occ, mvcc, no-wait, wait-die, dl-detect, hstore)",
    ),
    ("tpcc --execution dora", "--execution dora: unknown value (accepted: inline, plp, atrapos)"),
    ("tpcc --execution plp --cc silo", "--cc silo: not with --execution plp (accepted: hstore)"),
    (
        "tpcc --execution atrapos --engine paged --deploy 2isl",
        "--execution atrapos: workers own partitions of one instance (accepted: inline, or --deploy 1isl)",
    ),
    (
        "counter --execution atrapos",
        "--execution atrapos: this workload has no transactions (accepted: inline)",
    ),
    ("tpcc --durability full", "--durability full: unknown value (accepted: none, async, group, sync)"),
    ("tpcc --timestamp wall", "--timestamp wall: unknown value (accepted: clock, counter)"),
    ("tpcc --instrument yes", "--instrument yes: unknown value (accepted: on, off)"),
    ("tpcc --seed -1", "--seed -1: out of range (accepted: 0 to 18446744073709551615)"),
    ("tpcc --seconds 0", "--seconds 0: out of range (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds -1", "--seconds -1: out of range (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds NaN", "--seconds NaN: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds inf", "--seconds inf: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds -inf", "--seconds -inf: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds 1e9", "--seconds 1e9: out of range (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds 10s", "--seconds 10s: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --transactions 0", "--transactions 0: out of range (accepted: 1 to 1000000000000)"),
    (
        "tpcc --seconds 1 --transactions 1",
        "--seconds with --transactions: each gives the length of the run (accepted: one of the two)",
    ),
    ("tpcc --warmup -0.1", "--warmup -0.1: out of range (accepted: 0 to 3600)"),
    (
        "tpcc --adaptive on",
        "--adaptive on: only --execution atrapos has partitions that could follow the workload (accepted: no --adaptive, or \
         --execution atrapos)",
    ),
    (
        "tpcc --execution atrapos --adaptive maybe",
        "--adaptive maybe: unknown value (accepted: on, off, monitor)",
    ),
    (
        "tpcc --adapt-interval 1",
        "--adapt-interval 1: partitions do not follow the workload (accepted: no --adapt-interval, or --execution atrapos \
         --adaptive on or monitor)",
    ),
    (
        "tpcc --execution atrapos --adapt-interval 0",
        "--adapt-interval 0: out of range (accepted: 0.0001 to 3600)",
    ),
    ("tpcc --transport pipe", "--transport pipe: unknown value (accepted: shm, uds, tcp)"),
    ("tpcc --disk ram", "--disk ram: this machine has the disk it has (accepted: no --disk, or --machine)"),
    (
        "tpcc --scale 0.1 --scale-caches on",
        "--scale-caches on: this machine has the caches it has (accepted: off, or --machine)",
    ),
    (
        "tpcc --pages small",
        "--pages small: regions request huge pages from this machine (accepted: huge, or --machine)",
    ),
    ("tpcc --pages large", "--pages large: unknown value (accepted: small, huge)"),
    ("tpcc --scale-caches maybe", "--scale-caches maybe: unknown value (accepted: on, off)"),
    ("tpcc --disk tape", "--disk tape: unknown value (accepted: ram, nvme, hdd, hdd:2)"),
    (
        "tpcc --log-disk ram",
        "--log-disk ram: this machine has the disk it has (accepted: no --log-disk, or --machine)",
    ),
    (
        "tpcc --remote-rows other-instance",
        "--remote-rows other-instance: there is one instance (accepted: any, or --deploy)",
    ),
    (
        "tpcc --remote-rows other-instance --cores 4 --warehouses 6 --deploy 2isl",
        "--remote-rows other-instance: workers have different shares (accepted: any, or --warehouses a multiple of --cores)",
    ),
    (
        "tpcb --remote-rows other-instance --cores 5 --deploy 2isl",
        "--remote-rows other-instance: instances have different sizes (accepted: any, or --cores that --deploy divides)",
    ),
    (
        "micro --remote-rows other-instance --zipf 0.5 --deploy 2isl",
        "--remote-rows other-instance: the skew chooses among all rows (accepted: no --zipf, no --hot)",
    ),
    (
        "tpcc --remote-rows other-instance --load block --deploy 2isl",
        "--remote-rows other-instance: warehouses are loaded in blocks (accepted: any, or --load home)",
    ),
    ("tpcc --in-flight 0", "--in-flight 0: out of range (accepted: 1 to 1024)"),
    ("tpcc --commit lotus", "--commit lotus: unknown value (accepted: classic, published)"),
    (
        "tpcc --deploy 2isl --cc hstore --commit published",
        "--commit published: parts lock partitions in the order of the instances under hstore (accepted: classic, or another --cc)",
    ),
    ("tpcc --clients robots", "--clients robots: unknown value (accepted: worker, instance, global)"),
    (
        "tpcc --deploy 2isl --clients global",
        "--clients global: instances on this machine are processes, and clients are in one (accepted: worker, instance, or --machine)",
    ),
    (
        "counter --clients instance",
        "--clients instance: counter has no database (accepted: with another workload)",
    ),
    (
        "tpcc --without",
        "--without \"\": unknown value (accepted: thread-alloc, hash-index, queue-latch, replicate, prefetch, compiled-rows, bounded-spin, read-only-skip, replicate-index, plain-locks, lookahead, sli, aether, announcements)",
    ),
    (
        "tpcc --without hash-index,read-only-skip,hash-index",
        "--without hash-index: named twice (accepted: each name once)",
    ),
    ("counter --durability group", "--durability group: this workload stores nothing (accepted: none)"),
    (
        "tpcc --durability none --path data",
        "--path data: nothing is logged (accepted: no --path, or --durability async, group, sync)",
    ),
    ("tpcc --pool 1GiB", "--pool 1GiB: rows in memory have no pool (accepted: no --pool, or --engine paged)"),
    ("tpcc --warehouses 0", "--warehouses 0: out of range (accepted: 1 to 65535)"),
    ("tpcc --warehouses 65536", "--warehouses 65536: out of range (accepted: 1 to 65535)"),
    (
        "tpcc --warehouses 10000",
        "--warehouses 10000: rows of 633.3 GiB in a memory of 16.0 GiB (accepted: less than 252)",
    ),
    (
        "tpcc --mix all",
        "--mix all: unknown value (accepted: full, narrow, payment, new-order, order-status, delivery, stock-level)",
    ),
    ("tpcc --remote-payment 101", "--remote-payment 101: out of range (accepted: 0 to 100)"),
    ("tpcc --remote-items -1", "--remote-items -1: out of range (accepted: 0 to 100)"),
    ("tpcc --remote-choice near", "--remote-choice near: unknown value (accepted: any, local, farthest)"),
    (
        "tpcc --remote-choice local --deploy core --cores 2",
        "--remote-choice local: there are several instances (accepted: any, or --deploy 1isl)",
    ),
    (
        "tpcc --remote-choice farthest --clients instance",
        "--remote-choice farthest: requests are drawn before their worker is chosen (accepted: any, or --clients worker)",
    ),
    ("tpcc --schema tiny", "--schema tiny: unknown value (accepted: full, small)"),
    ("tpcc --scale 0", "--scale 0: out of range (accepted: 0.001 to 100)"),
    ("tpcc --scale -1", "--scale -1: out of range (accepted: 0.001 to 100)"),
    ("tpcc --inserts maybe", "--inserts maybe: unknown value (accepted: on, off)"),
    ("tpcc --load anywhere", "--load anywhere: unknown value (accepted: home, block)"),
    ("tpcc --hot-rows soon", "--hot-rows soon: unknown value (accepted: late, early)"),
    ("tpcc --stocks all", "--stocks all: unknown value (accepted: sorted, drawn)"),
    (
        "tpcc --index-inserts off --durability none",
        "--index-inserts off with --mix full: these transactions look for inserted rows (accepted: --mix narrow, payment or new-order)",
    ),
    (
        "tpcc --index-inserts off --mix narrow",
        "--index-inserts off with --durability group: rows in no index are in no log (accepted: --durability none)",
    ),
    ("tpcc --unvalidated-reads maybe", "--unvalidated-reads maybe: unknown value (accepted: on, off)"),
    ("tpcc --like silo", "--like silo: unknown value (accepted: dbx1000, shore-mt)"),
    ("ipc --cores 3", "--cores 3: messages go between two peers (accepted: 2)"),
    ("ipc --mechanism pigeon", "--mechanism pigeon: unknown value (accepted: pipe, fifo, mq, uds, tcp, shm)"),
    ("ipc --processes 3", "--processes 3: out of range (accepted: 1 to 2)"),
    (
        "ipc --processes 2 --mechanism mq",
        "--mechanism mq with --processes 2: it does not connect two processes here (accepted: shm, uds, tcp)",
    ),
    (
        "ipc --processes 2 --machine quad-socket",
        "--processes 2: a simulated machine has no processes (accepted: 1)",
    ),
    (
        "ipc --peers apart",
        "--peers apart: unknown value (accepted: same-socket, other-socket, other-machine)",
    ),
    ("memory --rows 0", "--rows 0: out of range (accepted: 1 to 10000000000)"),
    (
        "micro --warehouses 2",
        "--warehouses: a flag of workload tpcc, not of micro (accepted: --rows, --zipf, --op, --row-bytes, \
         --rows-per-site, --multisite, --remote-rows, --hot)",
    ),
    (
        "counter --rows 1",
        "--rows: a flag of workload micro and ycsb and memory, not of counter (accepted: --threads, --counters)",
    ),
    (
        "counter --branches 1",
        "--branches: a flag of workload tpcb, not of counter (accepted: --threads, --counters)",
    ),
    ("micro --op write", "--op write: unknown value (accepted: read, update, mixed)"),
    ("micro --rows 0", "--rows 0: out of range (accepted: 1 to 1000)"),
    (
        "micro --rows 20 --rows-per-site 10",
        "--rows 20: more rows a transaction than --rows-per-site 10 (accepted: 1 to 10)",
    ),
    ("micro --row-bytes 4", "--row-bytes 4: out of range (accepted: 8 to 65536)"),
    ("micro --rows-per-site 0", "--rows-per-site 0: out of range (accepted: 1 to 10000000000)"),
    ("micro --multisite 1.01", "--multisite 1.01: out of range (accepted: 0 to 1)"),
    ("micro --zipf 2", "--zipf 2: out of range (accepted: 0 to 1)"),
    (
        "micro --hot 0.5",
        "--hot 0.5: not two shares (accepted: F:F as in 0.8:0.2, a share of requests from 0 to 1 and a share of \
         data above 0 up to 1)",
    ),
    (
        "micro --hot 0.5:0.2 --zipf 0.5",
        "--hot with --zipf: each gives the skew of the choice of rows (accepted: one of the two)",
    ),
    ("ycsb --workload g", "--workload g: unknown value (accepted: a, b, c, d, e, f)"),
    ("ycsb --records 0", "--records 0: out of range (accepted: 1 to 10000000000)"),
    (
        "ycsb --records 1000000000",
        "--records 1000000000: rows of 93.1 GiB in a memory of 16.0 GiB (accepted: less than 171798691)",
    ),
    (
        "ycsb --rows 11 --records 10",
        "--rows 11: more rows a transaction than --records 10 (accepted: 1 to 10)",
    ),
    ("counter --threads 9", "--threads 9: out of range (accepted: 1 to 8)"),
    (
        "counter --threads 2 --cores 3",
        "--threads 2 with --cores 3: both give the number of workers (accepted: one of the two)",
    ),
    (
        "lock --lock lock",
        "--lock lock: unknown value (accepted: tas, ttas, ticket, mcs, clh, hierarchical, cas, cas-refused, faa, swap, poll)",
    ),
    ("lock --locks 0", "--locks 0: out of range (accepted: 1 to 1000000)"),
    ("lock --critical -1", "--critical -1: out of range (accepted: 0 to 1000000)"),
    ("lock --delay long", "--delay long: not a whole number (accepted: 0 to 1000000)"),
    ("lock --held-words 7", "--held-words 7: out of range (accepted: 1 to 6)"),
    ("lock --held-line both", "--held-line both: unknown value (accepted: own, lock)"),
    (
        "lock --lock faa --critical 5",
        "--critical 5: nothing is held under --lock faa (accepted: with --lock tas, ttas, ticket, mcs, clh, hierarchical)",
    ),
    (
        "lock --lock poll --held-line own",
        "--held-line own: nothing is held under --lock poll (accepted: with --lock tas, ttas, ticket, mcs, clh, hierarchical)",
    ),
    (
        "lock --lock mcs --backoff 100",
        "--backoff 100: waiters of --lock mcs do not back off (accepted: with --lock ttas, ticket)",
    ),
    ("lock --lock poll --locks 2", "--locks 2: one word is polled (accepted: 1)"),
    ("lock --lock poll --threads 1", "--threads 1: one writes and others poll (accepted: 2 or more)"),
    ("lock --threads 9", "--threads 9: out of range (accepted: 1 to 8)"),
    (
        "counter --lock mcs",
        "--lock: a flag of workload lock, not of counter (accepted: --threads, --counters)",
    ),
    ("counter --counters many", "--counters many: unknown value (accepted: single, socket, core)"),
];
