import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.UUID;
import org.junit.jupiter.api.extension.*;

/** A fresh database for each test, on a server with `--ephemeral model`. */
public class FreshDatabase implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver {
    private static boolean isPrepared;
    private Connection connection;

    static Connection connect(String database) throws SQLException {
        String address = System.getenv("PGHOST") + ":" + System.getenv("PGPORT");
        return DriverManager.getConnection("jdbc:postgresql://" + address + "/" + database, System.getenv("PGUSER"), "");
    }

    /** The database that each test begins with. Migrations go here. */
    @Override
    public synchronized void beforeAll(ExtensionContext context) throws Exception {
        if (isPrepared) return;
        isPrepared = true;
        try (Connection server = connect("postgres")) {
            server.createStatement().execute("CREATE DATABASE model");
        }
        try (Connection schema = connect("model")) {
            schema.createStatement().execute("CREATE TABLE birds (name text PRIMARY KEY, beats int NOT NULL)");
            schema.createStatement().execute("INSERT INTO birds VALUES ('colibri', 80)");
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) throws Exception {
        connection = connect("test_" + UUID.randomUUID().toString().replace("-", ""));
    }

    /** The database goes with the connection. */
    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        connection.close();
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Connection.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return connection;
    }
}
