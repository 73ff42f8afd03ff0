import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.types.DataTypes;

/**
 * The load of the Java client. Prints a line for each path: name, rows, seconds and seconds of processor time.
 *
 * <p>{@code Load LOAD ADDRESS ROWS [USER SECRET]}, where LOAD is {@code paths}; or {@code fill} for a KV table that is
 * kept, {@code change} to update some of its keys, {@code find} to look some of them up.
 */
public final class Load {
    static final String DATABASE = "java_load";
    private static final int ATTEMPTS = 300;
    private static final OperatingSystemMXBean SYSTEM =
            ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
    private static boolean isWarm = true;

    public static void main(String[] arguments) throws Exception {
        String[] access = java.util.Arrays.copyOfRange(arguments, 3, arguments.length);
        int rows = Integer.parseInt(arguments[2]);
        try (Connection connection = connection(arguments[1], access, "100ms", "all")) {
            connection.getAdmin().createDatabase(DATABASE, DatabaseDescriptor.EMPTY, true).get();
            switch (arguments[0]) {
                case "fill" -> Keys.fill(connection, rows);
                case "change" -> Keys.change(connection, rows);
                case "find" -> Keys.find(connection, rows);
                default -> {
                    // The first run, not reported, warms up Java.
                    isWarm = false;
                    paths(connection, arguments[1], access, rows / 2);
                    isWarm = true;
                    paths(connection, arguments[1], access, rows);
                }
            }
        }
        System.exit(0);
    }

    private static void paths(Connection connection, String address, String[] access, int rows) throws Exception {
        Logs.run(connection, rows);
        try (Connection withoutAcks = connection(address, access, "100ms", "0")) {
            Logs.appendWithoutAcks(withoutAcks, rows);
        }
        try (Connection unbatched = connection(address, access, "0ms", "all")) {
            Logs.time(unbatched);
        }
        Keys.run(connection, rows / 2);
    }

    /** {@code batchTimeout} is how long a writer waits for more rows before it sends a batch. */
    private static Connection connection(String address, String[] access, String batchTimeout, String acks) {
        Configuration settings = new Configuration();
        settings.setString("bootstrap.servers", address);
        settings.setString("client.scanner.kv.batch-strategy", "SERVER_SCAN");
        settings.setString("client.writer.batch-timeout", batchTimeout);
        settings.setString("client.writer.acks", acks);
        settings.setString("client.writer.enable-idempotence", String.valueOf(acks.equals("all")));
        if (access.length > 0) {
            settings.setString("client.security.protocol", "SASL");
            settings.setString("client.security.sasl.mechanism", "PLAIN");
            settings.setString("client.security.sasl.username", access[0]);
            settings.setString("client.security.sasl.password", access[1]);
        }
        return ConnectionFactory.createConnection(settings);
    }

    /** Opens a new table. In Fluss it is available once the tablet server has learned of it. */
    static Table opened(Connection connection, TablePath path) throws Exception {
        for (int left = ATTEMPTS; ; left--) {
            try {
                return connection.getTable(path);
            } catch (RuntimeException error) {
                if (left == 0) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }

    static Schema.Builder columns() {
        return Schema.newBuilder()
                .column("id", DataTypes.INT())
                .column("name", DataTypes.STRING())
                .column("count", DataTypes.BIGINT())
                .column("score", DataTypes.DOUBLE());
    }

    static GenericRow row(int key, int number) {
        return GenericRow.of(key, BinaryString.fromString("name-" + key), (long) number, number / 2.0);
    }

    /** A time, and the client's processor time so far. */
    record Moment(long nanos, long spent) {
        static Moment now() {
            return new Moment(System.nanoTime(), SYSTEM.getProcessCpuTime());
        }
    }

    static void report(String name, int rows, Moment began) {
        Moment now = Moment.now();
        double took = (now.nanos - began.nanos) / 1e9, spent = (now.spent - began.spent) / 1e9;
        print("done " + name + " " + rows + " " + took + " " + spent);
    }

    /** Prints nothing during the warm-up. */
    static void print(String line) {
        if (isWarm) {
            System.out.println(line);
        }
    }
}
