import java.time.Duration;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.ScanRecord;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.TablePath;

/** Reads a log table from its beginning until it is ended; prints a line for each record: its producer and number. */
public final class Reader {
    private static final Duration WAIT = Duration.ofSeconds(1);

    public static void main(String[] words) throws Exception {
        Configuration said = new Configuration();
        said.setString("bootstrap.servers", words[0]);
        said.setString("client.security.protocol", "SASL");
        said.setString("client.security.sasl.mechanism", "PLAIN");
        said.setString("client.security.sasl.username", words[1]);
        said.setString("client.security.sasl.password", words[2]);
        TablePath path = TablePath.of("fluss", words[3]);
        int buckets = Integer.parseInt(words[4]);
        try (Connection connection = ConnectionFactory.createConnection(said);
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
