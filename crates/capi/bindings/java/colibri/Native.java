package colibri;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.nio.file.Path;

import static java.lang.foreign.ValueLayout.*;

/** The functions of colibri.h that this package uses. The system property colibri.library names the library. */
final class Native {
    private Native() {}

    static final int ROW = 1, DONE = 2, NULL = 4;
    static final long TERMINATED = -1;

    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup LIBRARY = SymbolLookup.libraryLookup(
            Path.of(System.getProperty("colibri.library", "libcolibri.so")).toAbsolutePath(), Arena.global());
    /** A pointer to a struct of so many bytes, or to text of any length. */
    private static final AddressLayout POINTER =
            ADDRESS.withTargetLayout(MemoryLayout.sequenceLayout(Long.MAX_VALUE, JAVA_BYTE));

    static final MethodHandle OPEN = of("colibri_open", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CLOSE = of("colibri_close", ADDRESS);
    static final MethodHandle CONNECT = of("colibri_connect", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle DISCONNECT = of("colibri_disconnect", ADDRESS);
    static final MethodHandle EXECUTE = of("colibri_execute", ADDRESS, ADDRESS);
    static final MethodHandle CANCEL = of("colibri_cancel", ADDRESS);
    static final MethodHandle PREPARE = of("colibri_prepare", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle FINALIZE = of("colibri_finalize", ADDRESS);
    static final MethodHandle STEP = of("colibri_step", ADDRESS);
    static final MethodHandle STORE = of("colibri_store", ADDRESS);
    static final MethodHandle RESET = of("colibri_reset", ADDRESS);
    static final MethodHandle TAG = of("colibri_tag", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle COLUMN_COUNT = of("colibri_column_count", ADDRESS, ADDRESS);
    static final MethodHandle COLUMN = of("colibri_column", ADDRESS, JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle BIND_NULL = of("colibri_bind_null", ADDRESS, JAVA_INT);
    static final MethodHandle BIND_BOOL = of("colibri_bind_bool", ADDRESS, JAVA_INT, JAVA_BOOLEAN);
    static final MethodHandle BIND_INT64 = of("colibri_bind_int64", ADDRESS, JAVA_INT, JAVA_LONG);
    static final MethodHandle BIND_DOUBLE = of("colibri_bind_double", ADDRESS, JAVA_INT, JAVA_DOUBLE);
    static final MethodHandle BIND_TEXT = of("colibri_bind_text", ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG);
    static final MethodHandle BIND_BYTES = of("colibri_bind_bytes", ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG);
    static final MethodHandle BIND_DATE = of("colibri_bind_date", ADDRESS, JAVA_INT, JAVA_INT);
    static final MethodHandle BIND_TIMESTAMP = of("colibri_bind_timestamp", ADDRESS, JAVA_INT, JAVA_LONG);
    static final MethodHandle BIND_TIMESTAMPTZ = of("colibri_bind_timestamptz", ADDRESS, JAVA_INT, JAVA_LONG);
    static final MethodHandle GET_BOOL = of("colibri_get_bool", ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle GET_INT64 = of("colibri_get_int64", ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle GET_DOUBLE = of("colibri_get_double", ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle GET_TEXT = of("colibri_get_text", ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle GET_BYTES = of("colibri_get_bytes", ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle GET_DATE = of("colibri_get_date", ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle GET_TIMESTAMP = of("colibri_get_timestamp", ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle GET_TIMESTAMPTZ = of("colibri_get_timestamptz", ADDRESS, JAVA_INT, ADDRESS);
    private static final MethodHandle LAST_ERROR =
            LINKER.downcallHandle(LIBRARY.findOrThrow("colibri_last_error"), FunctionDescriptor.of(POINTER));

    private static MethodHandle of(String name, MemoryLayout... arguments) {
        MethodHandle handle =
                LINKER.downcallHandle(LIBRARY.findOrThrow(name), FunctionDescriptor.of(JAVA_INT, arguments));
        // Arguments as one array: what calls them is not where speed is decided.
        return handle.asSpreader(Object[].class, arguments.length).asType(
                java.lang.invoke.MethodType.methodType(int.class, Object[].class));
    }

    /** Calls a function; gives its code, or throws what it has failed with. */
    static int call(MethodHandle function, Object... arguments) {
        int code;
        try {
            code = (int) function.invokeExact(arguments);
        } catch (Throwable problem) {
            throw new IllegalStateException(problem);
        }
        if (code < 0) {
            throw failure(code);
        }
        return code;
    }

    /** This thread's last failure: sqlstate[6], position, then pointers to texts. */
    private static ColibriException failure(int code) {
        MemorySegment error;
        try {
            error = (MemorySegment) LAST_ERROR.invokeExact();
        } catch (Throwable problem) {
            throw new IllegalStateException(problem);
        }
        if (error.equals(MemorySegment.NULL)) {
            return new ColibriException("XX000", "code " + code, null, null, null);
        }
        return new ColibriException(
                error.getString(0), text(error, 0), text(error, 1), text(error, 2), text(error, 7));
    }

    /** The text with a number: message, detail, hint, context, schema, table, column, constraint. */
    private static String text(MemorySegment error, int number) {
        // Behind them data_type stands in front of the constraint.
        int place = number == 7 ? 8 : number;
        MemorySegment text = error.get(POINTER, 16 + 8L * place);
        return text.equals(MemorySegment.NULL) ? null : text.getString(0);
    }

    /** A text of the library's. */
    static String text(MemorySegment holder) {
        return holder.get(POINTER, 0).getString(0);
    }

    /** Bytes of the library's. */
    static byte[] bytes(MemorySegment holder, long length) {
        return holder.get(POINTER, 0).asSlice(0, length).toArray(JAVA_BYTE);
    }
}
