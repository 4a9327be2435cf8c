package colibri;

/** A failure, with PostgreSQL's code. */
public final class ColibriException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final String sqlState, detail, hint, constraint;

    ColibriException(String sqlState, String message, String detail, String hint, String constraint) {
        super(message);
        this.sqlState = sqlState;
        this.detail = detail;
        this.hint = hint;
        this.constraint = constraint;
    }

    /** PostgreSQL's code: 23505. */
    public String sqlState() { return sqlState; }

    /** More about this case, or null. */
    public String detail() { return detail; }

    /** What to try, or null. */
    public String hint() { return hint; }

    /** The constraint that was violated, or null. */
    public String constraint() { return constraint; }

    /** Whether the transaction is to be run again. */
    public boolean isRetryable() { return sqlState.equals("40001") || sqlState.equals("40P01"); }
}
