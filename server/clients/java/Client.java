// pgjdbc: metadata, fetch size, batches, binary transfer, COPY, cancel.
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public final class Client {
    interface Check {
        void run(Connection c) throws Exception;
    }

    static int failed = 0;

    static Connection connect(String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        for (int n = 0; n < options.length; n += 2) {
            properties.setProperty(options[n], options[n + 1]);
        }
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        return DriverManager.getConnection(url, properties);
    }

    static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    interface Action {
        void run() throws Exception;
    }

    static void fails(String code, Action action) throws Exception {
        try {
            action.run();
        } catch (SQLException error) {
            same(error.getSQLState(), code);
            return;
        }
        throw new AssertionError("no error " + code);
    }

    static void check(String name, Check body) {
        try (Connection c = connect("prepareThreshold", "2")) {
            body.run(c);
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed = 1;
            System.out.println("FAIL " + name + ": " + String.valueOf(error).split("\n")[0]);
            if (System.getenv("CLIENTS_TRACE") != null) {
                error.printStackTrace();
            }
        }
    }

    static void run(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute(sql);
        }
    }

    static void types(Connection c) throws Exception {
        run(c, "drop table if exists jd_types");
        run(c, "create table jd_types (id int primary key, s smallint, b bigint, n numeric(12,3), r real, d double precision,"
            + " t text, o boolean, y bytea, u uuid, a date, z timestamptz, l int[])");
        UUID uuid = new UUID(0, 5);
        OffsetDateTime moment = OffsetDateTime.of(2024, 1, 2, 3, 4, 5, 0, ZoneOffset.UTC);
        try (PreparedStatement s = c.prepareStatement("insert into jd_types values (?,?,?,?,?,?,?,?,?,?,?,?,?)")) {
            for (int n = 0; n < 8; n++) {
                s.setInt(1, n);
                s.setShort(2, (short) -7);
                s.setLong(3, 1L << 60);
                s.setBigDecimal(4, new BigDecimal("123456.789"));
                s.setFloat(5, 1.5f);
                s.setDouble(6, -2.25);
                s.setString(7, "äöü'\\\n");
                s.setBoolean(8, true);
                s.setBytes(9, new byte[] {0, -1, 39});
                s.setObject(10, uuid);
                s.setObject(11, LocalDate.of(2024, 2, 29));
                s.setObject(12, moment);
                s.setArray(13, c.createArrayOf("int4", new Integer[] {1, 2, 3}));
                same(s.executeUpdate(), 1);
            }
        }
        try (PreparedStatement s = c.prepareStatement("select * from jd_types where id = ?")) {
            for (int n = 0; n < 8; n++) {
                s.setInt(1, n);
                ResultSet rows = s.executeQuery();
                same(rows.next(), true);
                same(rows.getShort(2), (short) -7);
                same(rows.getLong(3), 1L << 60);
                same(rows.getBigDecimal(4), new BigDecimal("123456.789"));
                same(rows.getFloat(5), 1.5f);
                same(rows.getDouble(6), -2.25);
                same(rows.getString(7), "äöü'\\\n");
                same(rows.getBoolean(8), true);
                same(Arrays.equals(rows.getBytes(9), new byte[] {0, -1, 39}), true);
                same(rows.getObject(10), uuid);
                same(rows.getObject(11, LocalDate.class), LocalDate.of(2024, 2, 29));
                same(rows.getObject(12, OffsetDateTime.class), moment);
                same(Arrays.asList((Integer[]) rows.getArray(13).getArray()), Arrays.asList(1, 2, 3));
                same(rows.getMetaData().getColumnTypeName(4), "numeric");
                same(rows.getMetaData().getPrecision(4), 12);
                same(rows.getMetaData().isAutoIncrement(1), false);
            }
        }
    }

    static void transactions(Connection c) throws Exception {
        run(c, "drop table if exists jd_t");
        run(c, "create table jd_t (id int primary key)");
        c.setAutoCommit(false);
        c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        run(c, "insert into jd_t values (1)");
        Savepoint savepoint = c.setSavepoint();
        fails("23505", () -> run(c, "insert into jd_t values (1)"));
        fails("25P02", () -> run(c, "select 1"));
        c.rollback(savepoint);
        c.releaseSavepoint(savepoint);
        c.commit();
        c.setReadOnly(true);
        fails("25006", () -> run(c, "delete from jd_t"));
        c.rollback();
        c.setReadOnly(false);
        c.setAutoCommit(true);
        same(c.isValid(2), true);
    }

    static void errors(Connection c) throws Exception {
        fails("42P01", () -> run(c, "select * from nowhere"));
        fails("42601", () -> run(c, "selec 1"));
        fails("22012", () -> run(c, "select 1/0"));
    }

    static void batches(Connection c) throws Exception {
        run(c, "drop table if exists jd_b");
        run(c, "create table jd_b (id serial primary key, v text)");
        try (PreparedStatement s = c.prepareStatement("insert into jd_b (v) values (?)", Statement.RETURN_GENERATED_KEYS)) {
            for (int n = 0; n < 300; n++) {
                s.setString(1, "v" + n);
                s.addBatch();
            }
            same(s.executeBatch().length, 300);
            ResultSet keys = s.getGeneratedKeys();
            int count = 0;
            while (keys.next()) {
                count++;
            }
            same(count, 300);
        }
        try (Statement s = c.createStatement()) {
            s.addBatch("update jd_b set v = 'x' where id = 1");
            s.addBatch("insert into jd_b values (2, 'twice')");
            try {
                s.executeBatch();
                throw new AssertionError("no error");
            } catch (BatchUpdateException error) {
                same(error.getSQLState(), "23505");
            }
        }
        try (Connection rewriting = connect("reWriteBatchedInserts", "true");
            PreparedStatement s = rewriting.prepareStatement("insert into jd_b (v) values (?)")) {
            for (int n = 0; n < 100; n++) {
                s.setString(1, "r" + n);
                s.addBatch();
            }
            same(s.executeBatch().length, 100);
        }
    }

    static void fetchSize(Connection c) throws Exception {
        c.setAutoCommit(false);
        try (PreparedStatement s = c.prepareStatement("select g from generate_series(1, ?) as g")) {
            for (int round = 0; round < 4; round++) {
                s.setFetchSize(7);
                s.setInt(1, 40);
                ResultSet rows = s.executeQuery();
                int total = 0;
                while (rows.next()) {
                    total += rows.getInt(1);
                }
                same(total, 820);
            }
        }
        c.commit();
    }

    static void metadata(Connection c) throws Exception {
        run(c, "drop table if exists jd_child");
        run(c, "drop table if exists jd_parent");
        run(c, "create table jd_parent (id int primary key, v varchar(20) not null, unique (v))");
        run(c, "create table jd_child (id bigint primary key, parent int references jd_parent (id), n numeric(10,2))");
        DatabaseMetaData all = c.getMetaData();
        same(all.getDatabaseMajorVersion(), 15);
        ResultSet tables = all.getTables(null, "public", "jd_%", new String[] {"TABLE"});
        StringBuilder names = new StringBuilder();
        while (tables.next()) {
            names.append(tables.getString("TABLE_NAME")).append(' ');
        }
        same(names.toString().contains("jd_child jd_parent "), true);
        ResultSet columns = all.getColumns(null, "public", "jd_parent", "%");
        StringBuilder kinds = new StringBuilder();
        while (columns.next()) {
            kinds.append(columns.getString("COLUMN_NAME") + ":" + columns.getString("TYPE_NAME") + ":" + columns.getInt("COLUMN_SIZE") + ":"
                + columns.getString("IS_NULLABLE") + " ");
        }
        same(kinds.toString(), "id:int4:10:NO v:varchar:20:NO ");
        ResultSet keys = all.getPrimaryKeys(null, "public", "jd_parent");
        same(keys.next() ? keys.getString("COLUMN_NAME") : "", "id");
        ResultSet imported = all.getImportedKeys(null, "public", "jd_child");
        same(imported.next() ? imported.getString("PKTABLE_NAME") + "." + imported.getString("PKCOLUMN_NAME") : "", "jd_parent.id");
        ResultSet indexes = all.getIndexInfo(null, "public", "jd_parent", true, false);
        int count = 0;
        while (indexes.next()) {
            count++;
        }
        same(count, 2);
        same(all.getSchemas().next(), true);
        same(all.getTypeInfo().next(), true);
        same(c.getSchema(), "public");
        same(c.getCatalog(), System.getenv("PGDATABASE"));
    }

    static void copies(Connection c) throws Exception {
        run(c, "drop table if exists jd_c");
        run(c, "create table jd_c (a int, b text)");
        CopyManager copies = c.unwrap(PGConnection.class).getCopyAPI();
        same(copies.copyIn("copy jd_c from stdin with (format csv)", new StringReader("1,one\n2,\n")), 2L);
        StringWriter out = new StringWriter();
        same(copies.copyOut("copy (select * from jd_c order by a) to stdout", out), 2L);
        same(out.toString(), "1\tone\n2\t\\N\n");
    }

    static void cancel(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            fails("57014", () -> s.executeQuery("select pg_sleep(10)"));
        }
        same(c.isValid(2), true);
    }

    public static void main(String[] arguments) {
        check("types", Client::types);
        check("transactions", Client::transactions);
        check("errors", Client::errors);
        check("batches", Client::batches);
        check("fetchSize", Client::fetchSize);
        check("metadata", Client::metadata);
        check("copies", Client::copies);
        check("cancel", Client::cancel);
        System.exit(failed);
    }
}
