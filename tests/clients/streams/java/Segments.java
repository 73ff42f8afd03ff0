import java.time.Duration;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.ScanRecord;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.TablePath;

/** Reads a log of one bucket from its start, whose rows have their offsets as `id`, from local and remote segments. */
public final class Segments extends Probe {
    private static final Duration WAIT = Duration.ofSeconds(1);

    public static void main(String[] words) throws Exception {
        int rows = Integer.parseInt(words[5]);
        Configuration said = settings(words[0], words[1], words[2]);
        said.setString("client.scanner.io.tmpdir", words[6]);
        try (Connection connection = ConnectionFactory.createConnection(said);
                Table table = connection.getTable(TablePath.of(words[3], words[4]));
                LogScanner scanner = table.newScan().createLogScanner()) {
            step("every row, in order", () -> {
                scanner.subscribeFromBeginning(0);
                int next = 0;
                for (int turn = 0; turn < 60 && next < rows; turn++) {
                    for (ScanRecord record : scanner.poll(WAIT)) {
                        same((long) next, record.logOffset());
                        same(next, record.getRow().getInt(0));
                        next++;
                    }
                }
                same(rows, next);
            });
        }
        end();
    }
}
