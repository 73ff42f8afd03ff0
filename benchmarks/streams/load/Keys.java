import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.lookup.Lookuper;
import org.apache.fluss.client.lookup.LookupResult;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.batch.BatchScanner;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.types.DataTypes;
import org.apache.fluss.utils.CloseableIterator;

/** Upserts, looks up and scans the keys of a new table: a line for each, its name, rows and seconds. */
public final class Keys {
    private static final int ON_THE_WAY = 4096;

    public static void main(String[] words) throws Exception {
        int rows = Integer.parseInt(words[1]);
        Configuration said = new Configuration();
        said.setString("bootstrap.servers", words[0]);
        said.setString("client.scanner.kv.batch-strategy", "SERVER_SCAN");
        if (words.length > 2) {
            said.setString("client.security.protocol", "SASL");
            said.setString("client.security.sasl.mechanism", "PLAIN");
            said.setString("client.security.sasl.username", words[2]);
            said.setString("client.security.sasl.password", words[3]);
        }
        try (Connection connection = ConnectionFactory.createConnection(said)) {
            TablePath path = TablePath.of("java_load", "keys_" + System.nanoTime());
            connection.getAdmin().createDatabase("java_load", DatabaseDescriptor.EMPTY, true).get();
            Schema schema = Schema.newBuilder()
                    .column("id", DataTypes.INT())
                    .column("name", DataTypes.STRING())
                    .column("count", DataTypes.BIGINT())
                    .column("score", DataTypes.DOUBLE())
                    .primaryKey("id")
                    .build();
            TableDescriptor table = TableDescriptor.builder().schema(schema).distributedBy(1, "id").build();
            connection.getAdmin().createTable(path, table, false).get();
            long id = connection.getAdmin().getTableInfo(path).get().getTableId();
            try (Table opened = connection.getTable(path)) {
                upsert(opened, "java-insert", rows);
                upsert(opened, "java-update", rows);
                lookup(opened, rows);
                scan(opened, id, rows);
            }
            connection.getAdmin().dropTable(path, false).get();
        }
        System.exit(0);
    }

    private static void upsert(Table table, String name, int rows) throws Exception {
        UpsertWriter writer = table.newUpsert().createWriter();
        long began = System.nanoTime();
        for (int number = 0; number < rows; number++) {
            int key = (int) ((number * 7919L + 1) % rows);
            writer.upsert(GenericRow.of(key, BinaryString.fromString("name-" + key), (long) number, number / 2.0));
        }
        writer.flush();
        tell(name, rows, began);
    }

    private static void lookup(Table table, int rows) throws Exception {
        Lookuper lookuper = table.newLookup().createLookuper();
        Random chance = new Random(7);
        ArrayDeque<CompletableFuture<LookupResult>> asked = new ArrayDeque<>();
        long began = System.nanoTime();
        for (int number = 0; number < rows; number++) {
            if (asked.size() == ON_THE_WAY) {
                check(asked.poll());
            }
            asked.add(lookuper.lookup(GenericRow.of(chance.nextInt(rows))));
        }
        while (!asked.isEmpty()) {
            check(asked.poll());
        }
        tell("java-lookup", rows, began);
    }

    private static void check(CompletableFuture<LookupResult> asked) throws Exception {
        if (asked.get().getSingletonRow() == null) {
            throw new AssertionError("a key was not found");
        }
    }

    /** A server that has no such call is told of as one: it is then left out of the comparison. */
    private static void scan(Table table, long id, int rows) throws Exception {
        long began = System.nanoTime();
        int found = 0;
        try (BatchScanner scanner = table.newScan().createBatchScanner(new TableBucket(id, 0))) {
            CloseableIterator<InternalRow> batch;
            while ((batch = scanner.pollBatch(Duration.ofSeconds(10))) != null) {
                try (CloseableIterator<InternalRow> some = batch) {
                    for (; some.hasNext(); found++) {
                        some.next();
                    }
                }
            }
        } catch (Exception problem) {
            System.out.println("none java-scan");
            return;
        }
        if (found != rows) {
            throw new AssertionError("rows " + found + ", expected " + rows);
        }
        tell("java-scan", rows, began);
    }

    private static void tell(String name, int rows, long began) {
        System.out.println("done " + name + " " + rows + " " + (System.nanoTime() - began) / 1e9);
    }
}
