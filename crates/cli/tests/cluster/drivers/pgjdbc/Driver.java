// What pgjdbc does with a cluster: which node it finds, and a connection that writes while leaders change.
//
//   Driver find HOSTS          prints "ATTRIBUTE PORT" for each kind of server that can be asked for
//   Driver write HOST MS FROM  inserts for so long on one connection, and prints how many rows were acknowledged

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

public class Driver {
    static Connection connect(String hosts, String options) throws Exception {
        return DriverManager.getConnection("jdbc:postgresql://" + hosts + "/postgres?user=postgres&sslmode=disable" + options);
    }

    static String port(Connection connection) throws Exception {
        try (ResultSet rows = connection.createStatement().executeQuery("SHOW port")) {
            rows.next();
            return rows.getString(1);
        }
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("find")) {
            for (String kind : new String[] {"any", "primary", "secondary", "preferSecondary", "preferPrimary"}) {
                try (Connection connection = connect(args[1], "&targetServerType=" + kind + "&hostRecheckSeconds=0")) {
                    System.out.println(kind + " " + port(connection));
                }
            }
            return;
        }
        long until = System.currentTimeMillis() + Long.parseLong(args[2]);
        long x = Long.parseLong(args[3]);
        long count = 0;
        try (Connection connection = connect(args[1], "")) {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?)");
                    PreparedStatement check = connection.prepareStatement("SELECT count(*) FROM t WHERE x = ?")) {
                while (System.currentTimeMillis() < until) {
                    boolean block = count % 2 == 0;
                    connection.setAutoCommit(!block);
                    insert.setLong(1, x);
                    insert.executeUpdate();
                    if (block) {
                        connection.commit();
                    }
                    connection.setAutoCommit(true);
                    check.setLong(1, x);
                    try (ResultSet rows = check.executeQuery()) {
                        rows.next();
                        if (rows.getLong(1) != 1) {
                            throw new IllegalStateException(x + " is not seen");
                        }
                    }
                    x++;
                    count++;
                }
            }
        }
        System.out.println(count);
    }
}
