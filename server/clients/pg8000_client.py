"""pg8000: a driver in Python alone, with Flush where others send Sync."""

import datetime
import decimal
import io
import uuid

import pg8000.dbapi
import pg8000.native
from checks import DATABASE, HOST, PORT, USER, Checks, fails, same

checks = Checks()


def code(error):
    return error.args[0]["C"]


def native():
    return pg8000.native.Connection(USER, host=HOST, port=PORT, database=DATABASE)


connection = native()


def types():
    connection.run("drop table if exists p8_types")
    connection.run(
        "create table p8_types (id int primary key, s smallint, b bigint, n numeric(12,3), r real, d double precision,"
        " t text, v varchar(10), c char(4), o boolean, y bytea, u uuid, a date, m time, s1 timestamp, s2 timestamptz,"
        " k jsonb, l int[], w text[])"
    )
    row = [
        1, -7, 2**60, decimal.Decimal("123456.789"), 1.5, -2.25, "äöü'\\\n", "ten", "ab  ", True, b"\x00\xff'\\",
        uuid.UUID(int=5), datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4), datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), {"b": ["x", None]}, [1, 2], ["a b", 'c"d', ""],
    ]
    names = [f"p{number}" for number in range(len(row))]
    places = ", ".join(f":{name}" for name in names)
    connection.run(f"insert into p8_types values ({places})", **dict(zip(names, row)))
    same(connection.run("select * from p8_types where id = :id", id=1), [row])
    same([column["name"] for column in connection.columns][:2], ["id", "s"])
    same(connection.run("select count(*) from p8_types where id = any(:ids)", ids=[1, 2]), [[1]])


def transactions():
    with pg8000.dbapi.connect(USER, host=HOST, port=PORT, database=DATABASE) as other:
        cursor = other.cursor()
        cursor.execute("drop table if exists p8_t")
        cursor.execute("create table p8_t (id int primary key)")
        other.commit()
        cursor.execute("insert into p8_t values (%s)", (1,))
        cursor.execute("savepoint a")
        fails("23505", lambda: cursor.execute("insert into p8_t values (%s)", (1,)), code_of=code)
        fails("25P02", lambda: cursor.execute("select 1"), code_of=code)
        cursor.execute("rollback to savepoint a")
        cursor.executemany("insert into p8_t values (%s)", [(n,) for n in range(2, 30)])
        other.commit()
        cursor.execute("delete from p8_t")
        other.rollback()
        cursor.execute("select count(*) from p8_t")
        same(tuple(cursor.fetchone()), (29,))


def errors():
    fails("42P01", lambda: connection.run("select * from nowhere"), code_of=code)
    fails("42601", lambda: connection.run("selec 1"), code_of=code)
    fails("22012", lambda: connection.run("select 1/:n::int", n=0), code_of=code)
    same(connection.run("select 1"), [[1]])


def prepared():
    statement = connection.prepare("select id, t from p8_types where id = :id")
    for _ in range(3):
        same(statement.run(id=1), [[1, "äöü'\\\n"]])
    statement.close()


def copies():
    connection.run("drop table if exists p8_c")
    connection.run("create table p8_c (a int, b text)")
    connection.run("copy p8_c from stdin with (format csv)", stream=io.StringIO("1,one\n2,\n"))
    connection.run("copy p8_c from stdin", stream=["3\tthree\n", "4\t\\N\n"])
    out = io.StringIO()
    connection.run("copy (select * from p8_c order by a) to stdout", stream=out)
    same(out.getvalue(), "1\tone\n2\t\\N\n3\tthree\n4\t\\N\n")


def session():
    connection.run("drop table if exists no_such_table")
    same(connection.notices[-1][b"C"], b"00000")
    other = pg8000.native.Connection(USER, host=HOST, port=PORT, database=DATABASE, application_name="p8")
    same(other.run("show application_name"), [["p8"]])
    other.close()


for check in (types, transactions, errors, prepared, copies, session):
    checks.run(check)
connection.close()
checks.end()
