import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.admin.Admin;
import org.apache.fluss.client.lookup.Lookuper;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.ScanRecord;
import org.apache.fluss.client.table.scanner.batch.BatchScanner;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableChange;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.types.DataTypes;
import org.apache.fluss.utils.CloseableIterator;

/** Writes records to a stream server and reads them with every API of the client; prints failures. */
public final class Records extends Probe {
    private static final int ROWS = 500;
    private static final Duration WAIT = Duration.ofSeconds(1);

    private static Connection connect(String[] words, String strategy) {
        Configuration said = settings(words[0], words[1], words[2]);
        said.setString("client.scanner.kv.batch-strategy", strategy);
        said.setString("client.scanner.kv.fetch.max-bytes", "2kb");
        return ConnectionFactory.createConnection(said);
    }

    public static void main(String[] words) throws Exception {
        try (Connection scans = connect(words, "SERVER_SCAN");
                Connection merges = connect(words, "SNAPSHOT_MERGE")) {
            String database = "java_records";
            got(scans.getAdmin().createDatabase(database, DatabaseDescriptor.EMPTY, false));
            log(scans, TablePath.of(database, "log"));
            keys(scans, merges, TablePath.of(database, "keys"));
            got(scans.getAdmin().dropDatabase(database, false, true));
        }
        end();
    }

    private static void log(Connection connection, TablePath path) throws Exception {
        Schema schema =
                Schema.newBuilder().column("id", DataTypes.INT()).column("name", DataTypes.STRING()).build();
        got(connection.getAdmin()
                .createTable(path, TableDescriptor.builder().schema(schema).distributedBy(2).build(), false));
        try (Table table = connection.getTable(path)) {
            step("append", () -> {
                AppendWriter writer = table.newAppend().createWriter();
                for (int number = 0; number < ROWS; number++) {
                    writer.append(GenericRow.of(number, BinaryString.fromString("n" + number)));
                }
                writer.flush();
            });
            step("read a log, one column of it", () -> {
                TreeSet<Integer> seen = new TreeSet<>();
                try (LogScanner scanner = table.newScan().project(new int[] {0}).createLogScanner()) {
                    scanner.subscribeFromBeginning(0);
                    scanner.subscribeFromBeginning(1);
                    for (int turn = 0; turn < 30 && seen.size() < ROWS; turn++) {
                        for (ScanRecord record : scanner.poll(WAIT)) {
                            same("+A", record.getChangeType().shortString());
                            seen.add(record.getRow().getInt(0));
                        }
                    }
                }
                same(ROWS, seen.size());
            });
        }
    }

    private static void keys(Connection scans, Connection merges, TablePath path) throws Exception {
        Schema schema = Schema.newBuilder()
                .column("id", DataTypes.INT())
                .column("name", DataTypes.STRING())
                .primaryKey("id")
                .build();
        Admin admin = scans.getAdmin();
        got(admin.createTable(path, TableDescriptor.builder().schema(schema).distributedBy(2, "id").build(), false));
        long id = got(admin.getTableInfo(path)).getTableId();
        Map<Integer, String> expected = new TreeMap<>();
        try (Table table = scans.getTable(path)) {
            step("upsert and delete", () -> {
                UpsertWriter writer = table.newUpsert().createWriter();
                for (int number = 0; number < ROWS; number++) {
                    writer.upsert(row(number, "n" + number));
                    expected.put(number, "n" + number);
                }
                writer.flush();
                for (int number = 0; number < 100; number++) {
                    writer.upsert(row(number, "again" + number));
                    expected.put(number, "again" + number);
                }
                for (int number = 100; number < 150; number++) {
                    writer.delete(row(number, null));
                    expected.remove(number);
                }
                writer.flush();
            });
            step("look up", () -> {
                Lookuper lookuper = table.newLookup().createLookuper();
                same("again7", got(lookuper.lookup(GenericRow.of(7))).getSingletonRow().getString(1).toString());
                same("n300", got(lookuper.lookup(GenericRow.of(300))).getSingletonRow().getString(1).toString());
                same(null, got(lookuper.lookup(GenericRow.of(120))).getSingletonRow());
                same(null, got(lookuper.lookup(GenericRow.of(99999))).getSingletonRow());
            });
            step("read the changes", () -> {
                Map<String, Integer> counts = new TreeMap<>();
                int count = 0;
                try (LogScanner scanner = table.newScan().createLogScanner()) {
                    scanner.subscribeFromBeginning(0);
                    scanner.subscribeFromBeginning(1);
                    for (int turn = 0; turn < 30 && count < 750; turn++) {
                        for (ScanRecord record : scanner.poll(WAIT)) {
                            counts.merge(record.getChangeType().shortString(), 1, Integer::sum);
                            count++;
                        }
                    }
                }
                same(Map.of("+I", 500, "-U", 100, "+U", 100, "-D", 50), counts);
            });
            step("statistics", () -> same(450L, got(admin.getTableStats(path)).getRowCount()));
            step("scan, a few rows a call", () -> {
                Map<Integer, String> found = new TreeMap<>();
                for (int bucket = 0; bucket < 2; bucket++) {
                    take(table.newScan().createBatchScanner(new TableBucket(id, bucket)), found);
                }
                same(expected, found);
            });
            step("scan one column, and leave early", () -> {
                BatchScanner scanner =
                        table.newScan().project(Collections.singletonList("name")).createBatchScanner(new TableBucket(id, 0));
                try (CloseableIterator<InternalRow> rows = scanner.pollBatch(WAIT)) {
                    same(true, rows.hasNext());
                    same(true, expected.containsValue(rows.next().getString(0).toString()));
                }
                scanner.close();
            });
            step("ten rows", () -> {
                Map<Integer, String> found = new TreeMap<>();
                take(table.newScan().limit(10).createBatchScanner(new TableBucket(id, 0)), found);
                same(10, found.size());
            });
            step("a column more", () -> {
                got(admin.alterTable(
                        path,
                        Collections.singletonList(
                                TableChange.addColumn("note", DataTypes.STRING(), null, TableChange.ColumnPosition.last())),
                        false));
                try (Table later = scans.getTable(path)) {
                    UpsertWriter writer = later.newUpsert().createWriter();
                    writer.upsert(GenericRow.of(7, BinaryString.fromString("seven"), BinaryString.fromString("noted")));
                    writer.flush();
                    expected.put(7, "seven");
                    Lookuper lookuper = later.newLookup().createLookuper();
                    InternalRow seven = got(lookuper.lookup(GenericRow.of(7))).getSingletonRow();
                    same("noted", seven.getString(2).toString());
                    same(true, got(lookuper.lookup(GenericRow.of(8))).getSingletonRow().isNullAt(2));
                    List<String> notes = new ArrayList<>();
                    for (int bucket = 0; bucket < 2; bucket++) {
                        for (InternalRow row : all(later.newScan().createBatchScanner(new TableBucket(id, bucket)))) {
                            notes.add(row.isNullAt(2) ? "" : row.getString(2).toString());
                        }
                    }
                    same(450, notes.size());
                    same(1, Collections.frequency(notes, "noted"));
                }
            });
            step("part of a row", () -> {
                try (Table later = scans.getTable(path)) {
                    UpsertWriter writer = later.newUpsert().partialUpdate("id", "note").createWriter();
                    writer.upsert(GenericRow.of(8, null, BinaryString.fromString("eight")));
                    writer.flush();
                    InternalRow eight = got(later.newLookup().createLookuper().lookup(GenericRow.of(8))).getSingletonRow();
                    same(Arrays.asList("again8", "eight"), Arrays.asList(eight.getString(1).toString(), eight.getString(2).toString()));
                }
            });
        }
        step("scan by the log, for who looks for snapshots", () -> {
            try (Table table = merges.getTable(path)) {
                Map<Integer, String> found = new TreeMap<>();
                take(table.newScan().createBatchScanner(), found);
                same(expected, found);
            }
        });
    }

    private static InternalRow row(int id, String name) {
        return GenericRow.of(id, name == null ? null : BinaryString.fromString(name));
    }

    private static void take(BatchScanner scanner, Map<Integer, String> found) throws Exception {
        for (InternalRow row : all(scanner)) {
            found.put(row.getInt(0), row.getString(1).toString());
        }
    }

    private static List<InternalRow> all(BatchScanner scanner) throws Exception {
        List<InternalRow> rows = new ArrayList<>();
        try (BatchScanner closed = scanner) {
            CloseableIterator<InternalRow> batch;
            while ((batch = closed.pollBatch(WAIT)) != null) {
                try (CloseableIterator<InternalRow> some = batch) {
                    while (some.hasNext()) {
                        rows.add(some.next());
                    }
                }
            }
        }
        return rows;
    }
}
