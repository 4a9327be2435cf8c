import static org.junit.jupiter.api.Assertions.assertEquals;

import java.sql.Connection;
import java.sql.ResultSet;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(FreshDatabase.class)
class BirdsTest {
    @RepeatedTest(20)
    void eachBeginsAnew(Connection db) throws Exception {
        ResultSet found = db.createStatement().executeQuery("SELECT count(*) FROM birds");
        found.next();
        assertEquals(1, found.getInt(1));
        db.createStatement().execute("INSERT INTO birds VALUES ('swift', 8)");
        db.createStatement().execute("CREATE TABLE mine (a int)");
    }
}
