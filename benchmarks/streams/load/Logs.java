import java.time.Duration;
import java.util.Arrays;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;

/** Appends to and scans a log table; appends without acknowledgements, and row by row with them. */
final class Logs {
    private static final int TIMED = 1000;
    private static final int WARMING = 200;

    static void run(Connection connection, int rows) throws Exception {
        TablePath path = create(connection);
        try (Table table = Load.opened(connection, path)) {
            append(table, "java-append", rows);
            Load.Moment began = Load.Moment.now();
            int found = 0;
            try (LogScanner scanner = table.newScan().createLogScanner()) {
                scanner.subscribeFromBeginning(0);
                while (found < rows) {
                    found += scanner.poll(Duration.ofSeconds(10)).count();
                }
            }
            Load.report("java-scan-log", rows, began);
        }
        connection.getAdmin().dropTable(path, false).get();
    }

    /** Appends with acks=0, which shows the client's limit. */
    static void appendWithoutAcks(Connection connection, int rows) throws Exception {
        TablePath path = create(connection);
        try (Table table = Load.opened(connection, path)) {
            append(table, "java-append-acks-0", rows);
        }
        connection.getAdmin().dropTable(path, false).get();
    }

    private static void append(Table table, String name, int rows) throws Exception {
        AppendWriter writer = table.newAppend().createWriter();
        Load.Moment began = Load.Moment.now();
        for (int number = 0; number < rows; number++) {
            writer.append(Load.row(number, number));
        }
        writer.flush();
        Load.report(name, rows, began);
    }

    /** Prints the median and the 99th percentile of the time until an append is acknowledged. */
    static void time(Connection connection) throws Exception {
        TablePath path = create(connection);
        try (Table table = Load.opened(connection, path)) {
            AppendWriter writer = table.newAppend().createWriter();
            long[] took = new long[TIMED];
            for (int number = -WARMING; number < TIMED; number++) {
                long began = System.nanoTime();
                writer.append(Load.row(number, number)).get();
                if (number >= 0) {
                    took[number] = System.nanoTime() - began;
                }
            }
            Arrays.sort(took);
            Load.print("took java-append " + took[TIMED / 2] / 1e9 + " " + took[TIMED * 99 / 100] / 1e9);
        }
        connection.getAdmin().dropTable(path, false).get();
    }

    private static TablePath create(Connection connection) throws Exception {
        TablePath path = TablePath.of(Load.DATABASE, "log_" + System.nanoTime());
        TableDescriptor table = TableDescriptor.builder().schema(Load.columns().build()).distributedBy(1).build();
        connection.getAdmin().createTable(path, table, false).get();
        return path;
    }
}
