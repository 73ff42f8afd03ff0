import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;

/** Writes to a log table and to a table of keys until its input ends; says a line for each row that was acknowledged. */
public final class Producer {
    private static final int ON_THE_WAY = 64;
    private static final int PAUSE_MILLIS = 2;

    public static void main(String[] words) throws Exception {
        Configuration said = new Configuration();
        said.setString("bootstrap.servers", words[0]);
        said.setString("client.security.protocol", "SASL");
        said.setString("client.security.sasl.mechanism", "PLAIN");
        said.setString("client.security.sasl.username", words[1]);
        said.setString("client.security.sasl.password", words[2]);
        said.setString("client.writer.batch-timeout", "5ms");
        if (words.length > 6) {
            said.setString("client.request-timeout", words[6]);
        }
        BinaryString name = BinaryString.fromString(words[3]);
        int firstKey = Integer.parseInt(words[4]);
        int keys = Integer.parseInt(words[5]);
        Semaphore room = new Semaphore(ON_THE_WAY);
        try (Connection connection = ConnectionFactory.createConnection(said);
                Table log = connection.getTable(TablePath.of("fluss", "log"));
                Table rows = connection.getTable(TablePath.of("fluss", "keys"))) {
            AppendWriter appends = log.newAppend().createWriter();
            UpsertWriter upserts = rows.newUpsert().createWriter();
            tell("begun", 0);
            long number = 0;
            for (; System.in.available() == 0; number++) {
                long own = number;
                room.acquire(2);
                follow(appends.append(GenericRow.of(name, own)), "log", own, room);
                GenericRow row = GenericRow.of(firstKey + (int) (own % keys), name, own);
                follow(own % 7 == 6 ? upserts.delete(row) : upserts.upsert(row), "keys", own, room);
                Thread.sleep(PAUSE_MILLIS);
            }
            appends.flush();
            upserts.flush();
            room.acquire(ON_THE_WAY);
            tell("done", number);
        }
        System.exit(0);
    }

    private static void follow(CompletableFuture<?> written, String table, long number, Semaphore room) {
        written.whenComplete((result, problem) -> {
            if (problem == null) {
                tell(table, number);
            } else {
                tell("failed " + problem, number);
            }
            room.release();
        });
    }

    private static synchronized void tell(String what, long number) {
        System.out.println(what + " " + number);
    }
}
