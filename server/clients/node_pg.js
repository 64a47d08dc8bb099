// node-postgres, with cursors and COPY streams.
const { Client, Pool, types } = require("pg");
const Cursor = require("pg-cursor");
const copy = require("pg-copy-streams");
const { pipeline } = require("stream/promises");
const { Readable } = require("stream");
const assert = require("assert").strict;

const options = { host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER, database: process.env.PGDATABASE };
let failed = 0;

async function fails(code, action) {
  await assert.rejects(action, (error) => { assert.equal(error.code, code); return true; });
}

const checks = {
  async types(c) {
    await c.query("drop table if exists np_types");
    await c.query("create table np_types (id int primary key, b bigint, n numeric(12,3), d double precision, t text, o boolean,"
      + " y bytea, u uuid, s timestamptz, k jsonb, l int[], w text[])");
    const id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    const row = [1, "1152921504606846976", "123456.789", -2.25, "äöü'\\\n", true, Buffer.from([0, 255, 39]), id, new Date("2024-01-02T03:04:05Z"), { b: ["x", null] }, [1, 2], ["a b", 'c"d', ""]];
    await c.query("insert into np_types values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)", row);
    for (const mode of [{ rowMode: "array" }, { rowMode: "array", name: "named" }, { rowMode: "array", binary: false }]) {
      const found = await c.query({ text: "select * from np_types where id = $1", values: [1], ...mode });
      assert.deepEqual(found.rows[0], row);
    }
    const result = await c.query("select id, t from np_types");
    assert.deepEqual(result.fields.map((field) => [field.name, field.dataTypeID]), [["id", 23], ["t", 25]]);
    assert.equal((await c.query("select count(*) from np_types where id = any($1)", [[1, 2]])).rows[0].count, "1");
  },
  async transactions(c) {
    await c.query("drop table if exists np_t; create table np_t (id int primary key)");
    await c.query("begin isolation level serializable");
    await c.query("insert into np_t values ($1)", [1]);
    await c.query("savepoint a");
    await fails("23505", () => c.query("insert into np_t values ($1)", [1]));
    await fails("25P02", () => c.query("select 1"));
    await c.query("rollback to savepoint a");
    await c.query("commit");
    assert.equal((await c.query("select count(*)::int as n from np_t")).rows[0].n, 1);
  },
  async errors(c) {
    await fails("42P01", () => c.query("select * from nowhere"));
    await fails("42601", () => c.query("selec 1"));
    await fails("22012", () => c.query("select 1/$1::int", [0]));
    await fails("22P02", () => c.query("select $1::int", ["x"]));
    assert.equal((await c.query("select 1 as one")).rows[0].one, 1);
  },
  async batches(c) {
    const all = await c.query("select 1 as a; select 2 as a; select 3 as a");
    assert.deepEqual(all.map((result) => result.rows[0].a), [1, 2, 3]);
    const many = await Promise.all(Array.from({ length: 50 }, (_, n) => c.query("select $1::int as n", [n])));
    assert.deepEqual(many.map((result) => result.rows[0].n), Array.from({ length: 50 }, (_, n) => n));
    assert.equal((await c.query("")).rows.length, 0);
  },
  async cursors(c) {
    const cursor = c.query(new Cursor("select g from generate_series(1, $1) as g", [25]));
    let total = 0;
    for (let rows = await cursor.read(10); rows.length > 0; rows = await cursor.read(10)) {
      rows.forEach((row) => { total += row.g; });
    }
    await cursor.close();
    assert.equal(total, 325);
  },
  async copies(c) {
    await c.query("drop table if exists np_c; create table np_c (a int, b text)");
    const lines = Array.from({ length: 5000 }, (_, n) => `${n}\tline ${n}\n`);
    await pipeline(Readable.from(lines), c.query(copy.from("copy np_c from stdin")));
    let out = "";
    const source = c.query(copy.to("copy (select * from np_c order by a) to stdout"));
    for await (const chunk of source) out += chunk;
    assert.equal(out, lines.join(""));
  },
  async cancel(c) {
    const process = (await c.query("select pg_backend_pid() as pid")).rows[0].pid;
    assert.equal(process, c.processID);
    await c.query("set statement_timeout = 300");
    await fails("57014", () => c.query("select count(*) from generate_series(1, 100000000) g"));
    await c.query("reset statement_timeout");
  },
  async pools() {
    const pool = new Pool({ ...options, max: 4, application_name: "np" });
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => pool.query("select $1::int as n, current_setting('application_name') as a", [n])));
    assert.equal(all[7].rows[0].a, "np");
    await pool.end();
  },
};

(async () => {
  const client = new Client(options);
  client.on("error", () => {});
  await client.connect();
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check(client);
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}: ${String(error.message).split("\n").slice(0, 3).join(" ")}`);
      await client.query("rollback").catch(() => {});
    }
  }
  await client.end();
  process.exit(failed ? 1 : 0);
})();
