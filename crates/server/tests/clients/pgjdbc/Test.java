// What programs do with pgjdbc: prepared statements (named from the fifth run on), batches, fetch sizes, transactions,
// generated keys, COPY, cancellation, errors.
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public class Test {
    static void check(boolean is, Object what) {
        if (!is) throw new AssertionError(String.valueOf(what));
    }

    interface Run { void run() throws Exception; }

    static void fails(String state, Run run) throws Exception {
        try {
            run.run();
        } catch (SQLException error) {
            check(state.equals(error.getSQLState()), error);
            return;
        }
        throw new AssertionError("no error, and not " + state);
    }

    public static void main(String[] args) throws Exception {
        try (Connection c = DriverManager.getConnection(args[0] + "&reWriteBatchedInserts=true")) {
            c.createStatement().execute("CREATE TABLE t (id int PRIMARY KEY, s varchar(20), d numeric(10,2), at timestamp, ok boolean, n bigint)");
            LocalDateTime at = LocalDateTime.of(2024, 2, 29, 12, 30);
            try (PreparedStatement p = c.prepareStatement("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)")) {
                for (int id = 0; id < 1000; id++) {
                    p.setInt(1, id);
                    p.setString(2, "s" + id);
                    p.setBigDecimal(3, new BigDecimal("1.5"));
                    p.setTimestamp(4, Timestamp.valueOf(at));
                    p.setBoolean(5, id % 2 == 0);
                    if (id == 7) p.setNull(6, Types.BIGINT); else p.setLong(6, 1L << 40);
                    p.addBatch();
                }
                check(p.executeBatch().length == 1000, "batch");
            }
            try (PreparedStatement p = c.prepareStatement("SELECT s, d, at, ok, n FROM t WHERE id = ?")) {
                for (int id = 0; id < 20; id++) {
                    p.setInt(1, id);
                    try (ResultSet r = p.executeQuery()) {
                        check(r.next(), id);
                        check(r.getString(1).equals("s" + id) && r.getBigDecimal(2).equals(new BigDecimal("1.50")), id);
                        check(r.getTimestamp(3).toLocalDateTime().equals(at) && r.getBoolean(4) == (id % 2 == 0), id);
                        check(r.getLong(5) == (id == 7 ? 0 : 1L << 40) && r.wasNull() == (id == 7), id);
                    }
                }
            }
            c.setAutoCommit(false);
            c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            try (PreparedStatement p = c.prepareStatement("SELECT id FROM t ORDER BY id")) {
                p.setFetchSize(64);
                try (ResultSet r = p.executeQuery()) {
                    int count = 0;
                    while (r.next()) check(r.getInt(1) == count++, count);
                    check(count == 1000, count);
                }
            }
            Savepoint before = c.setSavepoint();
            fails("23505", () -> c.createStatement().execute("INSERT INTO t (id) VALUES (1)"));
            fails("25P02", () -> c.createStatement().execute("SELECT 1"));
            c.rollback(before);
            check(c.createStatement().executeUpdate("UPDATE t SET s = 'x' WHERE id < 10") == 10, "updated");
            c.rollback();
            try (ResultSet r = c.createStatement().executeQuery("SELECT count(*) FROM t WHERE s = 'x'")) {
                check(r.next() && r.getInt(1) == 0, "rolled back");
            }
            c.commit();
            c.setAutoCommit(true);
            c.createStatement().execute("CREATE TABLE g (id serial PRIMARY KEY, s text)");
            try (PreparedStatement p = c.prepareStatement("INSERT INTO g (s) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
                for (int n = 1; n <= 8; n++) {
                    p.setString(1, "x");
                    p.executeUpdate();
                    ResultSet keys = p.getGeneratedKeys();
                    check(keys.next() && keys.getInt(1) == n, n);
                }
            }
            CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
            check(copy.copyIn("COPY g (s) FROM STDIN", new StringReader("a\nb\n")) == 2, "copied in");
            StringWriter out = new StringWriter();
            check(copy.copyOut("COPY (SELECT s FROM g WHERE s <> 'x' ORDER BY s) TO STDOUT", out) == 2, "copied out");
            check(out.toString().equals("a\nb\n"), out);
            try (Statement s = c.createStatement()) {
                s.setQueryTimeout(1);
                fails("57014", () -> s.executeQuery("SELECT count(*) FROM generate_series(1, 1000000000000)"));
            }
            check(c.isValid(5), "valid");
        }
        System.out.println("ok");
    }
}
