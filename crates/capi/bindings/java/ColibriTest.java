import colibri.*;

import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/** Tests of the package: a program that prints "done" if all is well. The argument is an empty directory. */
public final class ColibriTest {
    private static void equal(Object found, Object expected, String what) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError(what + ": " + found + ", not " + expected);
        }
    }

    private static ColibriException fails(String state, Runnable what) {
        try {
            what.run();
        } catch (ColibriException failure) {
            equal(failure.sqlState(), state, failure.getMessage());
            return failure;
        }
        throw new AssertionError("no failure " + state);
    }

    private static void values(Connection conn) {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("boolean", true);
        values.put("bigint", -1L << 62);
        values.put("float8", 0.1);
        values.put("numeric", new BigDecimal("12345678901234567890.50"));
        values.put("text", "é");
        values.put("bytea", new byte[] {0, -1});
        values.put("date", LocalDate.of(2024, 2, 29));
        values.put("timestamp", LocalDateTime.of(2024, 2, 29, 12, 34, 56, 789_000));
        values.put("timestamptz", Instant.parse("2024-02-29T12:34:56.000789Z"));
        values.put("uuid", new UUID(1, 2));
        values.put("int", null);
        values.forEach((type, value) ->
                equal(conn.query("SELECT $1::" + type, new Object[] {value}).get(0).get(0), value, type));
        equal(conn.query("SELECT '{1,2}'::int[], 'NaN'::numeric").get(0).values().toString(), "[{1,2}, NaN]", "texts");
    }

    private static void statements(Connection conn) {
        conn.batch("CREATE TABLE birds (name text PRIMARY KEY, grams float8 CHECK (grams > 0))");
        try (Statement add = conn.prepare("INSERT INTO birds VALUES ($1, $2)")) {
            equal(add.execute("bee", 1.95), 1L, "rows");
            equal(add.execute("giant", 20.2), 1L, "rows");
            fails("23505", () -> add.execute("bee", 2.0));
            equal(fails("23514", () -> add.execute("none", 0.0)).constraint(), "birds_grams_check", "constraint");
        }
        fails("42703", () -> conn.query("SELECT nothing FROM birds"));
        try {
            conn.transaction(() -> {
                conn.execute("DELETE FROM birds");
                throw new IllegalStateException("changed my mind");
            });
        } catch (IllegalStateException expected) {
            equal(expected.getMessage(), "changed my mind", "exception");
        }
        equal(conn.query("SELECT count(*) AS n FROM birds").get(0).number("n"), 2L, "birds");
    }

    private static void threads(Database db, Connection conn) throws InterruptedException {
        conn.batch("CREATE TABLE counters (n int); INSERT INTO counters VALUES (0)");
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                try (Connection own = db.connect()) {
                    for (int done = 0; done < 25; ) {
                        try {
                            own.execute("UPDATE counters SET n = n + 1");
                            done++;
                        } catch (ColibriException failure) {
                            if (!failure.isRetryable()) throw failure;
                        }
                    }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        equal(conn.query("SELECT n FROM counters").get(0).number("n"), 100L, "counter");

        Thread endless = new Thread(() -> fails("57014", () ->
                conn.query("SELECT count(*) FROM generate_series(1, 1000000000000)")));
        endless.start();
        while (endless.isAlive()) {
            conn.cancel();
            Thread.sleep(5);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path directory = Files.createDirectories(Path.of(arguments[0]));
        try (Database db = Database.open(directory.toString())) {
            fails("55006", () -> Database.open(directory.toString()));
            try (Connection conn = db.connect()) {
                values(conn);
                statements(conn);
                threads(db, conn);
            }
        }
        System.out.println("done");
    }
}
