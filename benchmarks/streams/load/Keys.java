import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.lookup.LookupResult;
import org.apache.fluss.client.lookup.Lookuper;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.batch.BatchScanner;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.utils.CloseableIterator;

/** Upserts to, looks up and scans a KV table. */
final class Keys {
    private static final TablePath MANY = TablePath.of(Load.DATABASE, "many");
    private static final int MAX_IN_FLIGHT = 4096;
    private static final int LOOKED_UP = 500_000;
    private static final int CHANGED = 500_000;
    private static final int REPORT_INTERVAL = 1_000_000;

    static void run(Connection connection, int rows) throws Exception {
        TablePath path = TablePath.of(Load.DATABASE, "keys_" + System.nanoTime());
        create(connection, path);
        long id = connection.getAdmin().getTableInfo(path).get().getTableId();
        try (Table opened = Load.opened(connection, path)) {
            upsert(opened, "java-insert", rows);
            upsert(opened, "java-update", rows);
            lookup(opened, "java-lookup", rows, rows);
            scan(opened, id, rows);
        }
        connection.getAdmin().dropTable(path, false).get();
    }

    /** Fills a table that is kept; reports every million keys. */
    static void fill(Connection connection, int rows) throws Exception {
        create(connection, MANY);
        put(connection, rows, rows);
    }

    /** Updates some of the keys. */
    static void change(Connection connection, int rows) throws Exception {
        put(connection, rows, Math.min(rows, CHANGED));
    }

    private static void put(Connection connection, int rows, int count) throws Exception {
        try (Table opened = Load.opened(connection, MANY)) {
            UpsertWriter writer = opened.newUpsert().createWriter();
            Load.Moment began = Load.Moment.now();
            for (int number = 0; number < count; number++) {
                int key = (int) ((number * 7919L + 1) % rows);
                writer.upsert(Load.row(key, number));
                if ((number + 1) % REPORT_INTERVAL == 0) {
                    writer.flush();
                    Load.report("fill", number + 1, began);
                }
            }
            writer.flush();
            if (count % REPORT_INTERVAL != 0) {
                Load.report("fill", count, began);
            }
        }
    }

    /** Looks up random keys of the filled table. */
    static void find(Connection connection, int rows) throws Exception {
        try (Table opened = Load.opened(connection, MANY)) {
            lookup(opened, "find", LOOKED_UP, rows);
        }
    }

    private static void create(Connection connection, TablePath path) throws Exception {
        TableDescriptor table = TableDescriptor.builder()
                .schema(Load.columns().primaryKey("id").build())
                .distributedBy(1, "id")
                .build();
        connection.getAdmin().createTable(path, table, false).get();
    }

    private static void upsert(Table table, String name, int rows) throws Exception {
        UpsertWriter writer = table.newUpsert().createWriter();
        Load.Moment began = Load.Moment.now();
        for (int number = 0; number < rows; number++) {
            writer.upsert(Load.row((int) ((number * 7919L + 1) % rows), number));
        }
        writer.flush();
        Load.report(name, rows, began);
    }

    private static void lookup(Table table, String name, int count, int rows) throws Exception {
        Lookuper lookuper = table.newLookup().createLookuper();
        Random chance = new Random(7);
        ArrayDeque<CompletableFuture<LookupResult>> pending = new ArrayDeque<>();
        Load.Moment began = Load.Moment.now();
        for (int number = 0; number < count; number++) {
            if (pending.size() == MAX_IN_FLIGHT) {
                check(pending.poll());
            }
            pending.add(lookuper.lookup(GenericRow.of(chance.nextInt(rows))));
        }
        while (!pending.isEmpty()) {
            check(pending.poll());
        }
        Load.report(name, count, began);
    }

    private static void check(CompletableFuture<LookupResult> pending) throws Exception {
        if (pending.get().getSingletonRow() == null) {
            throw new AssertionError("key not found");
        }
    }

    /** A server that does not support the scan is reported as such, and excluded from the comparison. */
    private static void scan(Table table, long id, int rows) throws Exception {
        Load.Moment began = Load.Moment.now();
        int found = 0;
        try (BatchScanner scanner = table.newScan().createBatchScanner(new TableBucket(id, 0))) {
            CloseableIterator<InternalRow> batch;
            while ((batch = scanner.pollBatch(Duration.ofSeconds(10))) != null) {
                try (CloseableIterator<InternalRow> rowsOfBatch = batch) {
                    for (; rowsOfBatch.hasNext(); found++) {
                        rowsOfBatch.next();
                    }
                }
            }
        } catch (Exception error) {
            Load.print("none java-scan");
            return;
        }
        if (found != rows) {
            throw new AssertionError("rows " + found + ", expected " + rows);
        }
        Load.report("java-scan", rows, began);
    }
}
