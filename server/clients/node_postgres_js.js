// postgres.js: pipelines, statements with Flush, cursors, COPY streams.
const postgres = require("postgres");
const assert = require("assert").strict;
const { pipeline } = require("stream/promises");
const { Readable } = require("stream");

const options = { host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER, database: process.env.PGDATABASE, onnotice: () => {}, max: 3 };
const sql = postgres(options);
let failed = 0;

async function fails(code, action) {
  await assert.rejects(action, (error) => { assert.equal(error.code, code); return true; });
}

const checks = {
  async types() {
    await sql`drop table if exists pj_types`;
    await sql`create table pj_types (id int primary key, b bigint, n numeric(12,3), d double precision, t text, o boolean, y bytea, u uuid, s timestamptz, k jsonb, l int[], w text[])`;
    const row = { id: 1, b: "1152921504606846976", n: "123456.789", d: -2.25, t: "äöü'\\\n", o: true, y: Buffer.from([0, 255, 39]), u: "67e55044-10b1-426f-9247-bb680e5fe0c8", s: new Date("2024-01-02T03:04:05Z"), k: { b: ["x", null] }, l: [1, 2], w: ["a b", 'c"d', ""] };
    await sql`insert into pj_types ${sql(row)}`;
    const [found] = await sql`select * from pj_types where id = ${1}`;
    assert.deepEqual({ ...found }, row);
    const described = await sql`select id, t from pj_types where id = ${1}`.describe();
    assert.deepEqual([described.types, described.columns.map((column) => column.type)], [[23], [23, 25]]);
    const some = await sql`select id from pj_types where id in ${sql([1, 2, 3])}`;
    assert.equal(some.length, 1);
    const any = await sql`select id from pj_types where id = any(${[1, 2, 3]})`;
    assert.equal(any.length, 1);
  },
  async transactions() {
    await sql`drop table if exists pj_t`;
    await sql`create table pj_t (id int primary key)`;
    await sql.begin("isolation level serializable", async (t) => {
      await t`insert into pj_t values (1)`;
      await t.savepoint((s) => s`insert into pj_t values (1)`).catch((error) => assert.equal(error.code, "23505"));
      await t.savepoint((s) => s`insert into pj_t values (2)`);
    });
    await fails("22012", () => sql.begin((t) => [t`insert into pj_t values (3)`, t`select 1/0`]));
    assert.equal((await sql`select count(*)::int as n from pj_t`)[0].n, 2);
  },
  async errors() {
    await fails("42P01", () => sql`select * from nowhere`);
    await fails("42601", () => sql`selec 1`);
    await fails("22P02", () => sql`select ${"x"}::text::int`);
    assert.equal((await sql`select 1 as one`)[0].one, 1);
  },
  async batches() {
    const all = await Promise.all(Array.from({ length: 60 }, (_, n) => sql`select ${n}::int as n`));
    assert.deepEqual(all.map((rows) => rows[0].n), Array.from({ length: 60 }, (_, n) => n));
    const rows = Array.from({ length: 100 }, (_, n) => ({ id: n + 10 }));
    assert.equal((await sql`insert into pj_t ${sql(rows)}`).count, 100);
    const several = await sql.unsafe("select 1 as a; select 2 as a");
    assert.equal(several[1][0].a, 2);
  },
  async cursors() {
    let total = 0;
    for await (const rows of sql`select g from generate_series(1, ${40}::int) as g`.cursor(7)) {
      rows.forEach((row) => { total += row.g; });
    }
    assert.equal(total, 820);
  },
  async copies() {
    await sql`drop table if exists pj_c`;
    await sql`create table pj_c (a int, b text)`;
    const lines = Array.from({ length: 3000 }, (_, n) => `${n}\tline ${n}\n`);
    await pipeline(Readable.from(lines), await sql`copy pj_c from stdin`.writable());
    let out = "";
    for await (const chunk of await sql`copy (select * from pj_c order by a) to stdout`.readable()) out += chunk;
    assert.equal(out, lines.join(""));
  },
  async cancel() {
    const query = sql`select count(*) from generate_series(1, 100000000) g`;
    setTimeout(() => query.cancel(), 300);
    await fails("57014", () => query);
    assert.equal((await sql`select 1 as one`)[0].one, 1);
  },
};

(async () => {
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}: ${String(error.message).split("\n").slice(0, 3).join(" ")}`);
    }
  }
  await sql.end({ timeout: 5 });
  process.exit(failed ? 1 : 0);
})();
