package colibri;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** A directory that is open for SQL. Any number of threads may use it. */
public final class Database implements AutoCloseable {
    private final MemorySegment handle;

    private Database(MemorySegment handle) { this.handle = handle; }

    /** Opens a directory, and makes a database there if there is none. */
    public static Database open(String directory) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment holder = arena.allocate(ValueLayout.ADDRESS);
            Native.call(Native.OPEN, arena.allocateFrom(directory), MemorySegment.NULL, holder);
            return new Database(holder.get(ValueLayout.ADDRESS, 0));
        }
    }

    /** A session: one thread at a time uses it. */
    public Connection connect() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment holder = arena.allocate(ValueLayout.ADDRESS);
            Native.call(Native.CONNECT, handle, MemorySegment.NULL, holder);
            return new Connection(holder.get(ValueLayout.ADDRESS, 0));
        }
    }

    /** Closes the handle; the database is closed with its last connection. */
    @Override
    public void close() { Native.call(Native.CLOSE, handle); }
}
