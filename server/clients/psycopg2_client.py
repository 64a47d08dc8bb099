"""psycopg2: everything as text, simple queries."""

import datetime
import decimal
import io
import threading
import time
import uuid

import psycopg2
import psycopg2.extensions
import psycopg2.extras
from checks import DATABASE, HOST, PORT, USER, Checks, fails, same

checks = Checks()
psycopg2.extras.register_uuid()


def connect(**options):
    return psycopg2.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, **options)


connection = connect()
connection.autocommit = True
cursor = connection.cursor()


def code(error):
    return error.pgcode


def types():
    cursor.execute("drop table if exists p2_types")
    cursor.execute(
        "create table p2_types (id int primary key, s smallint, b bigint, n numeric(12,3), r real, d double precision,"
        " t text, v varchar(10), c char(4), o boolean, y bytea, u uuid, a date, m time, s1 timestamp, s2 timestamptz,"
        " i interval, j json, k jsonb, l int[], w text[])"
    )
    row = (
        1, -7, 2**60, decimal.Decimal("123456.789"), 1.5, -2.25, "äöü'\\\n", "ten", "ab  ", True, b"\x00\xff'\\",
        uuid.UUID(int=5), datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4), datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), datetime.timedelta(days=3, seconds=7),
        {"a": [1, None]}, {"b": "x"}, [1, 2], ["a b", 'c"d', ""],
    )
    sent = [psycopg2.extras.Json(value) if isinstance(value, dict) else value for value in row]
    places = ", ".join(["%s"] * len(row))
    cursor.execute(f"insert into p2_types values ({places})", [psycopg2.Binary(v) if isinstance(v, bytes) else v for v in sent])
    cursor.execute("select * from p2_types where id = %s", (1,))
    found = list(cursor.fetchone())
    found[10] = bytes(found[10])
    same(tuple(found), row)
    cursor.execute("insert into p2_types (id) values (2) returning *")
    same(cursor.fetchone(), (2,) + (None,) * 20)
    same([column.name for column in cursor.description][:3], ["id", "s", "b"])
    same([column.type_code for column in cursor.description][:5], [23, 21, 20, 1700, 700])


def nulls_in_arrays():
    cursor.execute("create table if not exists p2_n (l int[])")
    cursor.execute("insert into p2_n values (%s) returning l", ([1, None],))
    same(cursor.fetchone(), ([1, None],))


def transactions():
    cursor.execute("drop table if exists p2_t")
    cursor.execute("create table p2_t (id int primary key, v int)")
    with connect() as other:
        inner = other.cursor()
        inner.execute("insert into p2_t values (1, 1)")
        inner.execute("savepoint a")
        fails("23505", lambda: inner.execute("insert into p2_t values (1, 2)"), code_of=code)
        fails("25P02", lambda: inner.execute("select 1"), code_of=code)
        inner.execute("rollback to a")
        inner.execute("insert into p2_t values (2, 2)")
        inner.execute("release a")
        same(other.get_transaction_status(), psycopg2.extensions.TRANSACTION_STATUS_INTRANS)
    cursor.execute("select count(*) from p2_t")
    same(cursor.fetchone(), (2,))
    with connect() as other:
        other.set_session(isolation_level="SERIALIZABLE", readonly=True)
        fails("25006", lambda: other.cursor().execute("delete from p2_t"), code_of=code)
    cursor.execute("select count(*) from p2_t")
    same(cursor.fetchone(), (2,))


def errors():
    error = fails("42P01", lambda: cursor.execute("select * from nowhere"), psycopg2.errors.UndefinedTable, code)
    same(error.diag.statement_position, "15")
    fails("42601", lambda: cursor.execute("selec 1"), psycopg2.errors.SyntaxError, code)
    fails("42703", lambda: cursor.execute("select nothing"), code_of=code)
    fails("22012", lambda: cursor.execute("select 1/0"), psycopg2.errors.DivisionByZero, code)
    fails("22P02", lambda: cursor.execute("select 'x'::int"), code_of=code)
    cursor.execute("drop table if exists p2_e")
    cursor.execute("create table p2_e (id int primary key, v int not null, w int constraint w_ok check (w > 0))")
    fails("23502", lambda: cursor.execute("insert into p2_e values (1)"), psycopg2.errors.NotNullViolation, code)
    error = fails("23514", lambda: cursor.execute("insert into p2_e values (1, 1, -1)"), code_of=code)
    same((error.diag.constraint_name, error.diag.table_name), ("w_ok", "p2_e"))


def batches():
    cursor.execute("drop table if exists p2_b")
    cursor.execute("create table p2_b (id int primary key, v text)")
    cursor.executemany("insert into p2_b values (%s, %s)", [(n, str(n)) for n in range(50)])
    psycopg2.extras.execute_batch(cursor, "update p2_b set v = %s where id = %s", [(f"v{n}", n) for n in range(50)], page_size=20)
    found = psycopg2.extras.execute_values(
        cursor, "insert into p2_b values %s returning id", [(n, None) for n in range(50, 60)], fetch=True
    )
    same(len(found), 10)
    cursor.execute("select count(*), count(v), max(v) from p2_b")
    same(cursor.fetchone(), (60, 50, "v9"))
    cursor.execute("select 1; select 2")
    same(cursor.fetchall(), [(2,)])


def named_cursors():
    with connect() as other, other.cursor("big") as named:
        named.itersize = 7
        named.execute("select g from generate_series(1, 40) as g")
        same(sum(row[0] for row in named), 820)
    with connect() as other, other.cursor("scrolls", scrollable=True) as named:
        named.execute("select g from generate_series(1, 40) as g")
        same(named.fetchmany(3), [(1,), (2,), (3,)])
        named.scroll(-2)
        same(named.fetchone(), (2,))
    with connect() as other:
        inner = other.cursor()
        inner.execute("declare kept cursor with hold for select g from generate_series(1, 4) as g")
        other.commit()
        inner.execute("fetch 2 from kept")
        same(inner.fetchall(), [(1,), (2,)])


def copies():
    cursor.execute("drop table if exists p2_c")
    cursor.execute("create table p2_c (a int, b text)")
    cursor.copy_from(io.StringIO("1\tone\n2\t\\N\n"), "p2_c", columns=("a", "b"))
    cursor.copy_expert("copy p2_c from stdin with (format csv, header)", io.StringIO('a,b\n3,"x,""y"""\n4,\n'))
    out = io.StringIO()
    cursor.copy_expert("copy (select * from p2_c order by a) to stdout with (format csv, header true)", out)
    same(out.getvalue(), 'a,b\n1,one\n2,\n3,"x,""y"""\n4,\n')
    out = io.StringIO()
    cursor.copy_to(out, "p2_c", sep="|", null="nil")
    same(sorted(out.getvalue().split("\n")), ["", "1|one", "2|nil", '3|x,"y"', "4|nil"])
    fails("22P04", lambda: cursor.copy_from(io.StringIO("1\n"), "p2_c"), code_of=code)
    fails("22P02", lambda: cursor.copy_from(io.StringIO("x\ty\n"), "p2_c"), code_of=code)


def cancel():
    with connect() as other:
        inner = other.cursor()
        timer = threading.Timer(0.3, other.cancel)
        timer.start()
        begun = time.monotonic()
        fails("57014", lambda: inner.execute("select count(*) from generate_series(1, 100000000) g"), code_of=code)
        same(time.monotonic() - begun < 5, True)
        timer.join()
        other.rollback()
        inner.execute("select 1")
        same(inner.fetchone(), (1,))


def session():
    same(connection.server_version // 10000, 15)
    same(connection.encoding, "UTF8")
    same(connection.get_parameter_status("standard_conforming_strings"), "on")
    with connect(application_name="clients", options="-c statement_timeout=5s") as other:
        inner = other.cursor()
        inner.execute("show application_name")
        same(inner.fetchone(), ("clients",))
        inner.execute("show statement_timeout")
        same(inner.fetchone(), ("5s",))
        inner.execute("select current_user, current_database(), version() like 'PostgreSQL 15%'")
        same(inner.fetchone(), (USER, DATABASE, True))
        other.commit()
        other.reset()
    cursor.execute("set timezone to 'UTC'; set search_path to public")


for check in (types, nulls_in_arrays, transactions, errors, batches, named_cursors, copies, cancel, session):
    checks.run(check)
connection.close()
checks.end()
