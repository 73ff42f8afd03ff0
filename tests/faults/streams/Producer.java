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

/** Writes to a log table and to a KV table until it receives input; prints a line for each acknowledged row. */
public final class Producer {
    private static final int IN_FLIGHT = 64;
    private static final int PAUSE_MILLIS = 2;

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("bootstrap.servers", arguments[0]);
        settings.setString("client.security.protocol", "SASL");
        settings.setString("client.security.sasl.mechanism", "PLAIN");
        settings.setString("client.security.sasl.username", arguments[1]);
        settings.setString("client.security.sasl.password", arguments[2]);
        settings.setString("client.writer.batch-timeout", "5ms");
        if (arguments.length > 6) {
            settings.setString("client.request-timeout", arguments[6]);
        }
        BinaryString name = BinaryString.fromString(arguments[3]);
        int firstKey = Integer.parseInt(arguments[4]);
        int keys = Integer.parseInt(arguments[5]);
        Semaphore slots = new Semaphore(IN_FLIGHT);
        try (Connection connection = ConnectionFactory.createConnection(settings);
                Table log = connection.getTable(TablePath.of("fluss", "log"));
                Table rows = connection.getTable(TablePath.of("fluss", "keys"))) {
            AppendWriter appends = log.newAppend().createWriter();
            UpsertWriter upserts = rows.newUpsert().createWriter();
            report("started", 0);
            long number = 0;
            for (; System.in.available() == 0; number++) {
                long own = number;
                slots.acquire(2);
                follow(appends.append(GenericRow.of(name, own)), "log", own, slots);
                GenericRow row = GenericRow.of(firstKey + (int) (own % keys), name, own);
                follow(own % 7 == 6 ? upserts.delete(row) : upserts.upsert(row), "keys", own, slots);
                Thread.sleep(PAUSE_MILLIS);
            }
            appends.flush();
            upserts.flush();
            slots.acquire(IN_FLIGHT);
            report("done", number);
        }
        System.exit(0);
    }

    private static void follow(CompletableFuture<?> written, String table, long number, Semaphore slots) {
        written.whenComplete((result, problem) -> {
            if (problem == null) {
                report(table, number);
            } else {
                report("failed " + problem, number);
            }
            slots.release();
        });
    }

    private static synchronized void report(String event, long number) {
        System.out.println(event + " " + number);
    }
}
