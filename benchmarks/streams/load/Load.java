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
 * What the Java client does to a server: a line for each path, its name, rows, seconds and those of processor time.
 *
 * <p>{@code Load WHAT ADDRESS ROWS [USER SECRET]}, where WHAT is {@code paths}; or {@code fill} for a table of keys that
 * stays, {@code change} to put some of them again, {@code find} to look some of them up.
 */
public final class Load {
    static final String DATABASE = "java_load";
    private static final int PATIENCE = 300;
    private static final OperatingSystemMXBean SYSTEM =
            ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
    private static boolean isWarm = true;

    public static void main(String[] words) throws Exception {
        String[] access = java.util.Arrays.copyOfRange(words, 3, words.length);
        int rows = Integer.parseInt(words[2]);
        try (Connection connection = connection(words[1], access, "100ms", "all")) {
            connection.getAdmin().createDatabase(DATABASE, DatabaseDescriptor.EMPTY, true).get();
            switch (words[0]) {
                case "fill" -> Keys.fill(connection, rows);
                case "change" -> Keys.change(connection, rows);
                case "find" -> Keys.find(connection, rows);
                default -> {
                    // A client that runs for long is asked about, not one whose code Java has only begun to compile.
                    isWarm = false;
                    paths(connection, words[1], access, rows / 2);
                    isWarm = true;
                    paths(connection, words[1], access, rows);
                }
            }
        }
        System.exit(0);
    }

    private static void paths(Connection connection, String address, String[] access, int rows) throws Exception {
        Logs.run(connection, rows);
        try (Connection unwaited = connection(address, access, "100ms", "0")) {
            Logs.pour(unwaited, rows);
        }
        try (Connection eager = connection(address, access, "0ms", "all")) {
            Logs.time(eager);
        }
        Keys.run(connection, rows / 2);
    }

    /** {@code patience} is how long a writer waits for more rows before it sends what it has. */
    private static Connection connection(String address, String[] access, String patience, String acks) {
        Configuration said = new Configuration();
        said.setString("bootstrap.servers", address);
        said.setString("client.scanner.kv.batch-strategy", "SERVER_SCAN");
        said.setString("client.writer.batch-timeout", patience);
        said.setString("client.writer.acks", acks);
        said.setString("client.writer.enable-idempotence", String.valueOf(acks.equals("all")));
        if (access.length > 0) {
            said.setString("client.security.protocol", "SASL");
            said.setString("client.security.sasl.mechanism", "PLAIN");
            said.setString("client.security.sasl.username", access[0]);
            said.setString("client.security.sasl.password", access[1]);
        }
        return ConnectionFactory.createConnection(said);
    }

    /** A table that was just made: Fluss has it when its tablet server has heard of it. */
    static Table opened(Connection connection, TablePath path) throws Exception {
        for (int left = PATIENCE; ; left--) {
            try {
                return connection.getTable(path);
            } catch (RuntimeException problem) {
                if (left == 0) {
                    throw problem;
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

    /** When something began, and the processor time of the client by then. */
    record Moment(long nanos, long spent) {
        static Moment now() {
            return new Moment(System.nanoTime(), SYSTEM.getProcessCpuTime());
        }
    }

    static void tell(String name, int rows, Moment began) {
        Moment now = Moment.now();
        double took = (now.nanos - began.nanos) / 1e9, spent = (now.spent - began.spent) / 1e9;
        say("done " + name + " " + rows + " " + took + " " + spent);
    }

    /** Only of a warm client. */
    static void say(String line) {
        if (isWarm) {
            System.out.println(line);
        }
    }
}
