import java.time.Duration;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.ScanRecord;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.TablePath;

/** Reads a log table from its beginning until it is killed; prints the producer and number of each record. */
public final class Reader {
    private static final Duration WAIT = Duration.ofSeconds(1);

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("bootstrap.servers", arguments[0]);
        settings.setString("client.security.protocol", "SASL");
        settings.setString("client.security.sasl.mechanism", "PLAIN");
        settings.setString("client.security.sasl.username", arguments[1]);
        settings.setString("client.security.sasl.password", arguments[2]);
        TablePath path = TablePath.of("fluss", arguments[3]);
        int buckets = Integer.parseInt(arguments[4]);
        try (Connection connection = ConnectionFactory.createConnection(settings);
                Table table = connection.getTable(path);
                LogScanner scanner = table.newScan().createLogScanner()) {
            for (int bucket = 0; bucket < buckets; bucket++) {
                scanner.subscribeFromBeginning(bucket);
            }
            while (true) {
                for (ScanRecord record : scanner.poll(WAIT)) {
                    System.out.println(record.getRow().getString(0) + " " + record.getRow().getLong(1));
                }
            }
        }
    }
}
