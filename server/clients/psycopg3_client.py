"""psycopg 3: the extended protocol, texts and binary values, pipelines, prepared statements."""

import datetime
import decimal
import threading
import time
import uuid

import psycopg
from checks import DATABASE, HOST, PORT, USER, Checks, fails, same
from psycopg.types.json import Jsonb

checks = Checks()


def connect(**options):
    return psycopg.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, **options)


connection = connect(autocommit=True)


def types():
    connection.execute("drop table if exists p3_types")
    connection.execute(
        "create table p3_types (id int primary key, s smallint, b bigint, n numeric(12,3), r real, d double precision,"
        " t text, v varchar(10), c char(4), o boolean, y bytea, u uuid, a date, m time, s1 timestamp, s2 timestamptz,"
        " i interval, k jsonb, l int[], w text[])"
    )
    row = (
        1, -7, 2**60, decimal.Decimal("123456.789"), 1.5, -2.25, "äöü'\\\n", "ten", "ab  ", True, b"\x00\xff'\\",
        uuid.UUID(int=5), datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4), datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), datetime.timedelta(days=3, seconds=7),
        {"b": ["x", None]}, [1, 2], ["a b", 'c"d', ""],
    )
    for number, form in enumerate(("%s", "%t", "%b")):
        places = ", ".join([form] * len(row))
        values = [number] + [Jsonb(value) if isinstance(value, dict) else value for value in row[1:]]
        connection.execute(f"insert into p3_types values ({places})", values)
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            same(cursor.execute("select * from p3_types where id = %s", (number,)).fetchone()[1:], row[1:])
    same(connection.execute("select %s::int[] @> array[2]", ([1, 2],)).fetchone(), (True,))
    same(connection.execute("select count(*) from p3_types where id = any(%s)", ([0, 1, 9],)).fetchone(), (2,))
    same(connection.execute("select %s::text, %s::numeric", (None, decimal.Decimal("1e-5"))).fetchone(), (None, decimal.Decimal("0.00001")))


def prepared():
    connection.execute("drop table if exists p3_p")
    connection.execute("create table p3_p (id int primary key, v int)")
    for number in range(12):
        connection.execute("insert into p3_p values (%s, %s)", (number, number * 2))
    for number in range(12):
        same(connection.execute("select v from p3_p where id = %s", (number,), prepare=True).fetchone(), (number * 2,))
    connection.execute("alter table p3_p add column w text default 'w'")
    same(connection.execute("select v from p3_p where id = %s", (1,), prepare=True).fetchone(), (2,))


def transactions():
    connection.execute("drop table if exists p3_t")
    connection.execute("create table p3_t (id int primary key)")
    with connection.transaction():
        connection.execute("insert into p3_t values (1)")
        fails("23505", lambda: nested("insert into p3_t values (1)"))
        with connection.transaction():
            connection.execute("insert into p3_t values (2)")
        with connection.transaction(force_rollback=True):
            connection.execute("insert into p3_t values (3)")
    same(connection.execute("select count(*) from p3_t").fetchone(), (2,))
    with connect() as other:
        other.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        other.read_only = True
        fails("25006", lambda: other.execute("delete from p3_t"))


def nested(statement):
    with connection.transaction():
        connection.execute(statement)


def errors():
    error = fails("42P01", lambda: connection.execute("select * from nowhere"), psycopg.errors.UndefinedTable)
    same(error.diag.statement_position, "15")
    fails("42601", lambda: connection.execute("selec 1"))
    fails("22012", lambda: connection.execute("select 1/%s", (0,)))
    fails("22P02", lambda: connection.execute("select %s::int", ("x",)))
    fails("08P01", lambda: connection.pgconn and raw_bind())


def raw_bind():
    result = connection.pgconn.exec_params(b"select $1::int, $2::int", [b"1"])
    state = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
    error = psycopg.Error()
    error.sqlstate = state.decode() if state else None
    raise error


def pipelines():
    connection.execute("drop table if exists p3_b")
    connection.execute("create table p3_b (id int primary key, v text)")
    cursor = connection.cursor()
    cursor.executemany("insert into p3_b values (%s, %s)", [(n, str(n)) for n in range(100)])
    same(cursor.rowcount, 100)
    cursor.executemany("update p3_b set v = %s where id = %s returning id", [("x", 1), ("y", 2)], returning=True)
    ids = [cursor.fetchone()[0]]
    while cursor.nextset():
        ids.append(cursor.fetchone()[0])
    same(ids, [1, 2])
    with connection.pipeline() as pipeline:
        first = connection.execute("select v from p3_b where id = %s", (1,))
        second = connection.execute("select v from p3_b where id = %s", (2,))
        pipeline.sync()
        same((first.fetchone(), second.fetchone()), (("x",), ("y",)))
    def broken():
        with connection.pipeline():
            connection.execute("insert into p3_b values (%s, 'a')", (200,))
            connection.execute("insert into p3_b values (%s, 'a')", (200,))
            connection.execute("insert into p3_b values (%s, 'a')", (201,))
    fails("23505", broken)
    same(connection.execute("select count(*) from p3_b where id >= 200").fetchone()[0] in (0, 1), True)


def cursors():
    with connect() as other, other.cursor("big") as named:
        named.itersize = 7
        named.execute("select g from generate_series(1, %s) as g", (40,))
        same(sum(row[0] for row in named), 820)
    with connect() as other, other.cursor("s", scrollable=True) as named:
        named.execute("select g from generate_series(1, 40) as g")
        same(named.fetchmany(3), [(1,), (2,), (3,)])
        named.scroll(0, mode="absolute")
        same(named.fetchone(), (1,))
    same([row[0] for row in connection.cursor().stream("select g from generate_series(1, 5) g")], [1, 2, 3, 4, 5])


def copies():
    connection.execute("drop table if exists p3_c")
    connection.execute("create table p3_c (a int, b text, n numeric(8,2), d date, l int[])")
    rows = [(1, "one", decimal.Decimal("1.50"), datetime.date(2024, 1, 1), [1]), (2, None, None, None, None), (3, "t\t\\", decimal.Decimal("-3.25"), None, [])]
    cursor = connection.cursor()
    with cursor.copy("copy p3_c from stdin") as copy:
        for row in rows:
            copy.write_row(row)
    with cursor.copy("copy p3_c from stdin (format binary)") as copy:
        copy.set_types(["int4", "text", "numeric", "date", "int4[]"])
        for row in rows:
            copy.write_row(row)
    same(connection.execute("select * from p3_c order by a").fetchall(), [row for row in rows for _ in range(2)])
    for form in ("text", "binary"):
        with cursor.copy(f"copy (select a, b, n, d, l from p3_c order by a) to stdout (format {form})") as copy:
            copy.set_types(["int4", "text", "numeric", "date", "int4[]"])
            same(list(copy.rows()), [row for row in rows for _ in range(2)])
    def aborted():
        with cursor.copy("copy p3_c from stdin") as copy:
            copy.write_row(rows[0])
            raise ZeroDivisionError
    try:
        aborted()
    except ZeroDivisionError:
        pass
    same(connection.execute("select count(*) from p3_c").fetchone(), (6,))


def cancel():
    with connect(autocommit=True) as other:
        timer = threading.Timer(0.3, other.cancel)
        timer.start()
        begun = time.monotonic()
        fails("57014", lambda: other.execute("select count(*) from generate_series(1, 100000000) g"))
        same(time.monotonic() - begun < 5, True)
        timer.join()
        same(other.execute("select 1").fetchone(), (1,))


def session():
    same(connection.info.server_version // 10000, 15)
    same(connection.info.parameter_status("integer_datetimes"), "on")
    with connect(options="-c application_name=c3 -c lock_timeout=2s") as other:
        same(other.execute("show application_name").fetchone(), ("c3",))
        same(other.execute("show lock_timeout").fetchone(), ("2s",))
    notices = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    connection.execute("drop table if exists no_such_table")
    same(notices, ['table "no_such_table" does not exist, skipping'])


for check in (types, prepared, transactions, errors, pipelines, cursors, copies, cancel, session):
    checks.run(check)
connection.close()
checks.end()
