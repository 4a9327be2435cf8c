package colibri;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.function.Supplier;

/** A session. */
public final class Connection implements AutoCloseable {
    private static final int ATTEMPTS_MAX = 10;
    private final MemorySegment handle;

    Connection(MemorySegment handle) { this.handle = handle; }

    /** Runs all statements of a text. */
    public void batch(String sql) {
        try (Arena arena = Arena.ofConfined()) {
            Native.call(Native.EXECUTE, handle, arena.allocateFrom(sql));
        }
    }

    /** Prepares a statement, to run it many times. */
    public Statement prepare(String sql) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment holder = arena.allocate(ValueLayout.ADDRESS);
            Native.call(Native.PREPARE, handle, arena.allocateFrom(sql), Native.TERMINATED, holder);
            return new Statement(holder.get(ValueLayout.ADDRESS, 0));
        }
    }

    /** Runs a statement; gives how many rows it has inserted, changed, deleted or returned. */
    public long execute(String sql, Object... parameters) {
        try (Statement statement = prepare(sql)) {
            return statement.execute(parameters);
        }
    }

    /** Runs a statement; gives its rows. */
    public List<Row> query(String sql, Object... parameters) {
        try (Statement statement = prepare(sql)) {
            return statement.query(parameters);
        }
    }

    /** Runs a function in a transaction, again after a conflict; what it throws rolls back. */
    public <T> T transaction(Supplier<T> function) {
        for (int attempt = 1; ; attempt++) {
            batch("BEGIN");
            try {
                T result = function.get();
                batch("COMMIT");
                return result;
            } catch (RuntimeException problem) {
                batch("ROLLBACK");
                if (!(problem instanceof ColibriException failure && failure.isRetryable() && attempt < ATTEMPTS_MAX)) {
                    throw problem;
                }
            }
        }
    }

    /** Ends what the connection is running, with the error 57014. Any thread may call it. */
    public void cancel() { Native.call(Native.CANCEL, handle); }

    /** Ends the session, and closes its statements. An open transaction is rolled back. */
    @Override
    public void close() { Native.call(Native.DISCONNECT, handle); }
}
