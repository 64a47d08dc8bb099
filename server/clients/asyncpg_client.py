"""asyncpg: binary values in and out, statements with Flush, cursors, binary COPY."""

import asyncio
import datetime
import decimal
import io
import json
import uuid

import asyncpg
from checks import DATABASE, HOST, PORT, USER, Checks, same

checks = Checks()


async def connect(**options):
    return await asyncpg.connect(host=HOST, port=PORT, user=USER, database=DATABASE, **options)


async def fails(code, action):
    try:
        await action
    except asyncpg.PostgresError as error:
        same(error.sqlstate, code)
        return error
    raise AssertionError(f"no error {code}")


async def types(c):
    await c.execute(
        "drop table if exists ap_types;"
        "create table ap_types (id int primary key, s smallint, b bigint, n numeric(12,3), r real, d double precision,"
        " t text, v varchar(10), c char(4), o boolean, y bytea, u uuid, a date, m time, s1 timestamp, s2 timestamptz,"
        " i interval, k jsonb, l int[], w text[])"
    )
    row = (
        1, -7, 2**60, decimal.Decimal("123456.789"), 1.5, -2.25, "äöü'\\\n", "ten", "ab  ", True, b"\x00\xff'\\",
        uuid.UUID(int=5), datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4), datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), datetime.timedelta(days=3, seconds=7),
        '{"b": ["x", null]}', [1, 2], ["a b", 'c"d', ""],
    )
    places = ", ".join(f"${number + 1}" for number in range(len(row)))
    await c.execute(f"insert into ap_types values ({places})", *row)
    found = await c.fetchrow("select * from ap_types where id = $1", 1)
    same(tuple(found)[:17], row[:17])
    same(json.loads(found["k"]), json.loads(row[17]))
    same(tuple(found)[18:], row[18:])
    same(await c.fetchval("select count(*) from ap_types where id = any($1::int[])", [1, 2]), 1)
    await c.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    same(await c.fetchval("select k from ap_types"), {"b": ["x", None]})


async def statements(c):
    statement = await c.prepare("select t, n from ap_types where id = $1 and s < $2")
    same([kind.name for kind in statement.get_parameters()], ["int4", "int2"])
    same([(a.name, a.type.name) for a in statement.get_attributes()], [("t", "text"), ("n", "numeric")])
    same(len(await statement.fetch(1, 0)), 1)
    same(statement.get_statusmsg(), "SELECT 1")
    same(await c.execute("update ap_types set v = $1", "x"), "UPDATE 1")


async def transactions(c):
    await c.execute("drop table if exists ap_t; create table ap_t (id int primary key)")
    async with c.transaction(isolation="serializable"):
        await c.execute("insert into ap_t values (1)")
        try:
            async with c.transaction():
                await c.execute("insert into ap_t values (1)")
        except asyncpg.UniqueViolationError as error:
            same((error.constraint_name, error.table_name), ("ap_t_pkey", "ap_t"))
        async with c.transaction():
            await c.execute("insert into ap_t values (2)")
    same(await c.fetchval("select count(*) from ap_t"), 2)
    transaction = c.transaction(readonly=True)
    await transaction.start()
    await fails("25006", c.execute("delete from ap_t"))
    await transaction.rollback()


async def errors(c):
    error = await fails("42P01", c.fetch("select * from nowhere"))
    same(error.position, "15")
    await fails("42601", c.execute("selec 1"))
    await fails("22012", c.fetch("select 1 / $1::int", 0))
    try:
        await c.fetch("select $1::int", "x")
        raise AssertionError("no error")
    except asyncpg.DataError:
        pass
    same(await c.fetchval("select 1"), 1)


async def batches(c):
    await c.execute("drop table if exists ap_b; create table ap_b (id int primary key, v text)")
    await c.executemany("insert into ap_b values ($1, $2)", [(n, str(n)) for n in range(200)])
    same(await c.fetchval("select count(*) from ap_b"), 200)
    await fails("23505", c.executemany("insert into ap_b values ($1, $2)", [(1000, "x"), (1, "y")]))
    same(await c.fetchval("select count(*) from ap_b"), 200)


async def cursors(c):
    async with c.transaction():
        total = 0
        async for row in c.cursor("select id from ap_b where id < $1", 100, prefetch=13):
            total += row["id"]
        same(total, 4950)
        cursor = await c.cursor("select id from ap_b order by id")
        same([row[0] for row in await cursor.fetch(3)], [0, 1, 2])
        same(await cursor.forward(5), 5)
        same((await cursor.fetchrow())[0], 8)


async def copies(c):
    await c.execute("drop table if exists ap_c; create table ap_c (a int, b text, t timestamptz, n numeric(9,2))")
    now = datetime.datetime(2024, 5, 6, tzinfo=datetime.timezone.utc)
    rows = [(n, f"t{n}" if n % 3 else None, now, decimal.Decimal(n) / 4) for n in range(1000)]
    same(await c.copy_records_to_table("ap_c", records=rows, columns=["a", "b", "t", "n"]), "COPY 1000")
    found = await c.fetch("select * from ap_c order by a")
    same([tuple(row) for row in found], rows)
    out = io.BytesIO()
    await c.copy_from_query("select a, b from ap_c where a < $1 order by a", 3, output=out, format="csv")
    same(out.getvalue(), b"0,\n1,t1\n2,t2\n")
    out = io.BytesIO()
    await c.copy_from_table("ap_c", output=out, format="binary")
    same(out.getvalue()[:11], b"PGCOPY\n\xff\r\n\0")
    await c.execute("create table if not exists ap_c2 (a int, b text, t timestamptz, n numeric(9,2))")
    await c.execute("truncate ap_c2")
    out.seek(0)
    same(await c.copy_to_table("ap_c2", source=out, format="binary"), "COPY 1000")
    same(await c.fetchval("select sum(n) from ap_c2"), await c.fetchval("select sum(n) from ap_c"))
    same(await c.copy_to_table("ap_c2", source=io.BytesIO(b"a;b\n1;x\n"), columns=["a", "b"], format="csv", header=True, delimiter=";"), "COPY 1")
    await fails("22P04", c.copy_to_table("ap_c2", source=io.BytesIO(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\1"), format="binary"))
    same(await c.fetchval("select 1"), 1)


async def cancel(c):
    try:
        await c.fetch("select count(*) from generate_series(1, 100000000) g", timeout=0.3)
        raise AssertionError("no error")
    except asyncio.TimeoutError:
        pass
    same(await c.fetchval("select 1"), 1)


async def session(c):
    same(c.get_server_version().major, 15)
    same(c.get_settings().server_encoding, "UTF8")
    notices = []
    c.add_log_listener(lambda _, message: notices.append(message.message))
    await c.execute("drop table if exists no_such_table")
    await asyncio.sleep(0)
    same(notices, ['table "no_such_table" does not exist, skipping'])
    other = await connect(server_settings={"application_name": "ap", "statement_timeout": "5s"})
    same(await other.fetchval("show application_name"), "ap")
    await other.reset()
    await other.close()
    pool = await asyncpg.create_pool(host=HOST, port=PORT, user=USER, database=DATABASE, min_size=2, max_size=4)
    same(await asyncio.gather(*(pool.fetchval("select $1::int", n) for n in range(10))), list(range(10)))
    await pool.close()


async def main():
    connection = await connect()
    for check in (types, statements, transactions, errors, batches, cursors, copies, cancel, session):
        try:
            if connection.is_closed():
                connection = await connect()
            await asyncio.wait_for(check(connection), 60)
            checks.note(check.__name__, None)
        except BaseException as error:  # noqa: BLE001 - every failure is an outcome
            checks.note(check.__name__, error)
            connection.terminate()
            connection = await connect()
    await asyncio.wait_for(connection.close(), 10)


asyncio.run(main())
checks.end()
