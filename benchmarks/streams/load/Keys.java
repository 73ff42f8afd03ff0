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

/** Upserts, looks up and scans the keys of a table. */
final class Keys {
    private static final TablePath MANY = TablePath.of(Load.DATABASE, "many");
    private static final int ON_THE_WAY = 4096;
    private static final int LOOKED_UP = 500_000;
    private static final int CHANGED = 500_000;
    private static final int TOLD = 1_000_000;

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

    /** Puts all of so many keys into a table that stays, and tells of every million. */
    static void fill(Connection connection, int rows) throws Exception {
        create(connection, MANY);
        put(connection, rows, rows);
    }

    /** Puts some of them again. */
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
                if ((number + 1) % TOLD == 0) {
                    writer.flush();
                    Load.tell("fill", number + 1, began);
                }
            }
            writer.flush();
            if (count % TOLD != 0) {
                Load.tell("fill", count, began);
            }
        }
    }

    /** Looks some of these keys up, of which there are so many. */
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
        Load.tell(name, rows, began);
    }

    private static void lookup(Table table, String name, int count, int rows) throws Exception {
        Lookuper lookuper = table.newLookup().createLookuper();
        Random chance = new Random(7);
        ArrayDeque<CompletableFuture<LookupResult>> asked = new ArrayDeque<>();
        Load.Moment began = Load.Moment.now();
        for (int number = 0; number < count; number++) {
            if (asked.size() == ON_THE_WAY) {
                check(asked.poll());
            }
            asked.add(lookuper.lookup(GenericRow.of(chance.nextInt(rows))));
        }
        while (!asked.isEmpty()) {
            check(asked.poll());
        }
        Load.tell(name, count, began);
    }

    private static void check(CompletableFuture<LookupResult> asked) throws Exception {
        if (asked.get().getSingletonRow() == null) {
            throw new AssertionError("a key was not found");
        }
    }

    /** A server that has no such call is told of as one: it is then left out of the comparison. */
    private static void scan(Table table, long id, int rows) throws Exception {
        Load.Moment began = Load.Moment.now();
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
            Load.say("none java-scan");
            return;
        }
        if (found != rows) {
            throw new AssertionError("rows " + found + ", expected " + rows);
        }
        Load.tell("java-scan", rows, began);
    }
}
