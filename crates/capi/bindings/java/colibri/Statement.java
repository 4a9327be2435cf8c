package colibri;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;

import static java.lang.foreign.ValueLayout.*;

/** A prepared statement. Its parameters are $1, $2 and so on. */
public final class Statement implements AutoCloseable {
    private static final int BOOL = 16, BYTES = 17, INT8 = 20, INT2 = 21, INT4 = 23, OID = 26, FLOAT4 = 700,
            FLOAT8 = 701, DATE = 1082, TIMESTAMP = 1114, TIMESTAMP_TZ = 1184, NUMERIC = 1700, UUID_OID = 2950;
    private final MemorySegment handle;

    Statement(MemorySegment handle) { this.handle = handle; }

    /** Runs it; gives how many rows it has inserted, changed, deleted or returned. */
    public long execute(Object... parameters) {
        try (Arena arena = Arena.ofConfined()) {
            start(arena, parameters);
            while (Native.call(Native.STEP, handle) != Native.DONE) {}
            MemorySegment affected = arena.allocate(JAVA_LONG);
            Native.call(Native.TAG, handle, MemorySegment.NULL, affected);
            return affected.get(JAVA_LONG, 0);
        }
    }

    /** Runs it; gives its rows. */
    public List<Row> query(Object... parameters) {
        try (Arena arena = Arena.ofConfined()) {
            start(arena, parameters);
            MemorySegment count = arena.allocate(JAVA_INT), name = arena.allocate(ADDRESS), oid = arena.allocate(JAVA_INT);
            Native.call(Native.COLUMN_COUNT, handle, count);
            List<String> names = new ArrayList<>();
            int[] oids = new int[count.get(JAVA_INT, 0)];
            for (int column = 0; column < oids.length; column++) {
                Native.call(Native.COLUMN, handle, column, name, MemorySegment.NULL, oid);
                names.add(Native.text(name));
                oids[column] = oid.get(JAVA_INT, 0);
            }
            List<Row> rows = new ArrayList<>();
            MemorySegment value = arena.allocate(JAVA_LONG), length = arena.allocate(JAVA_LONG);
            while (Native.call(Native.STEP, handle) == Native.ROW) {
                List<Object> values = new ArrayList<>(oids.length);
                for (int column = 0; column < oids.length; column++) {
                    values.add(value(column, oids[column], value, length));
                }
                rows.add(new Row(names, Collections.unmodifiableList(values)));
            }
            return rows;
        }
    }

    private void start(Arena arena, Object[] parameters) {
        Native.call(Native.RESET, handle);
        for (int place = 0; place < parameters.length; place++) {
            bind(arena, place + 1, parameters[place]);
        }
    }

    private void bind(Arena arena, int number, Object value) {
        switch (value) {
            case null -> Native.call(Native.BIND_NULL, handle, number);
            case Boolean truth -> Native.call(Native.BIND_BOOL, handle, number, truth);
            case Long whole -> Native.call(Native.BIND_INT64, handle, number, whole);
            case Integer whole -> Native.call(Native.BIND_INT64, handle, number, whole.longValue());
            case Short whole -> Native.call(Native.BIND_INT64, handle, number, whole.longValue());
            case Double real -> Native.call(Native.BIND_DOUBLE, handle, number, real);
            case Float real -> Native.call(Native.BIND_DOUBLE, handle, number, real.doubleValue());
            case byte[] bytes -> Native.call(
                    Native.BIND_BYTES, handle, number, arena.allocateFrom(JAVA_BYTE, bytes), (long) bytes.length);
            case LocalDate date -> Native.call(Native.BIND_DATE, handle, number, (int) date.toEpochDay());
            case LocalDateTime time -> Native.call(
                    Native.BIND_TIMESTAMP, handle, number, micros(time.toInstant(ZoneOffset.UTC)));
            case Instant time -> Native.call(Native.BIND_TIMESTAMPTZ, handle, number, micros(time));
            // What the parameter's type reads: numbers of any length, JSON, UUIDs and others.
            case BigDecimal decimal -> text(arena, number, decimal.toPlainString());
            default -> text(arena, number, value.toString());
        }
    }

    private void text(Arena arena, int number, String text) {
        Native.call(Native.BIND_TEXT, handle, number, arena.allocateFrom(text), Native.TERMINATED);
    }

    private static long micros(Instant time) { return ChronoUnit.MICROS.between(Instant.EPOCH, time); }

    private static Instant instant(long micros) { return Instant.EPOCH.plus(micros, ChronoUnit.MICROS); }

    private Object value(int column, int oid, MemorySegment value, MemorySegment length) {
        return switch (oid) {
            case BOOL -> Native.call(Native.GET_BOOL, handle, column, value) == Native.NULL ? null : value.get(JAVA_BOOLEAN, 0);
            case INT2, INT4, INT8, OID ->
                    Native.call(Native.GET_INT64, handle, column, value) == Native.NULL ? null : value.get(JAVA_LONG, 0);
            case FLOAT4, FLOAT8 ->
                    Native.call(Native.GET_DOUBLE, handle, column, value) == Native.NULL ? null : value.get(JAVA_DOUBLE, 0);
            case DATE -> Native.call(Native.GET_DATE, handle, column, value) == Native.NULL
                    ? null : LocalDate.ofEpochDay(value.get(JAVA_INT, 0));
            case TIMESTAMP -> Native.call(Native.GET_TIMESTAMP, handle, column, value) == Native.NULL
                    ? null : LocalDateTime.ofInstant(instant(value.get(JAVA_LONG, 0)), ZoneOffset.UTC);
            case TIMESTAMP_TZ -> Native.call(Native.GET_TIMESTAMPTZ, handle, column, value) == Native.NULL
                    ? null : instant(value.get(JAVA_LONG, 0));
            case BYTES -> Native.call(Native.GET_BYTES, handle, column, value, length) == Native.NULL
                    ? null : Native.bytes(value, length.get(JAVA_LONG, 0));
            default -> {
                if (Native.call(Native.GET_TEXT, handle, column, value, length) == Native.NULL) {
                    yield null;
                }
                String text = Native.text(value);
                yield switch (oid) {
                    case NUMERIC -> text.equals("NaN") || text.endsWith("Infinity") ? text : new BigDecimal(text);
                    case UUID_OID -> UUID.fromString(text);
                    default -> text;
                };
            }
        };
    }

    /** Closes it. */
    @Override
    public void close() { Native.call(Native.FINALIZE, handle); }
}
