import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.admin.Admin;
import org.apache.fluss.client.admin.KvSnapshotLease;
import org.apache.fluss.client.metadata.KvSnapshots;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.batch.BatchScanner;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.utils.CloseableIterator;

/** Reads KV snapshots from their files; the table has `id` and `name`, two buckets, and rows 0 to 99 as `first`. */
public final class Snapshots extends Probe {
    private static final Duration WAIT = Duration.ofSeconds(1);

    public static void main(String[] words) throws Exception {
        TablePath path = TablePath.of(words[3], words[4]);
        Configuration said = settings(words[0], words[1], words[2]);
        said.setString("client.scanner.kv.batch-strategy", "SNAPSHOT_MERGE");
        said.setString("client.scanner.io.tmpdir", words[5]);
        try (Connection connection = ConnectionFactory.createConnection(said); Admin admin = connection.getAdmin()) {
            long id = got(admin.getTableInfo(path)).getTableId();
            Map<TableBucket, Long> newest = new HashMap<>();
            step("what there is", () -> {
                KvSnapshots found = got(admin.getLatestKvSnapshots(path));
                long covered = 0;
                for (int bucket = 0; bucket < 2; bucket++) {
                    long number = found.getSnapshotId(bucket).getAsLong();
                    newest.put(new TableBucket(id, bucket), number);
                    covered += found.getLogOffset(bucket).getAsLong();
                    same(true, got(admin.listKvSnapshots(id, null)).getSnapshotIdsByBucket().get(bucket).contains(number));
                    same(found.getLogOffset(bucket).getAsLong(),
                            got(admin.getKvSnapshotMetadata(new TableBucket(id, bucket), number)).getLogOffset());
                }
                same(100L, covered);
            });
            step("a lease", () -> {
                KvSnapshotLease lease = admin.createKvSnapshotLease("java-reader", 60_000);
                same(Collections.emptyMap(), got(lease.acquireSnapshots(newest)).getUnavailableSnapshots());
                got(lease.releaseSnapshots(newest.keySet()));
                got(lease.dropLease());
            });
            try (Table table = connection.getTable(path)) {
                step("rows of a snapshot", () -> {
                    Map<Integer, String> found = new TreeMap<>();
                    for (Map.Entry<TableBucket, Long> each : newest.entrySet()) {
                        take(table.newScan().createBatchScanner(each.getKey(), each.getValue()), found);
                    }
                    same(100, found.size());
                    same(Collections.singleton("first"), Map.copyOf(found).values().stream().collect(java.util.stream.Collectors.toSet()));
                });
                step("rows of a snapshot and of the changes since", () -> {
                    UpsertWriter writer = table.newUpsert().createWriter();
                    writer.upsert(GenericRow.of(7, BinaryString.fromString("second")));
                    writer.upsert(GenericRow.of(100, BinaryString.fromString("new")));
                    writer.delete(GenericRow.of(8, null));
                    writer.flush();
                    Map<Integer, String> found = new TreeMap<>();
                    take(table.newScan().createBatchScanner(), found);
                    same(100, found.size());
                    same("second", found.get(7));
                    same("new", found.get(100));
                    same(null, found.get(8));
                });
            }
        }
        end();
    }

    private static void take(BatchScanner scanner, Map<Integer, String> found) throws Exception {
        try (BatchScanner closed = scanner) {
            CloseableIterator<InternalRow> batch;
            while ((batch = closed.pollBatch(WAIT)) != null) {
                try (CloseableIterator<InternalRow> some = batch) {
                    while (some.hasNext()) {
                        InternalRow row = some.next();
                        found.put(row.getInt(0), row.getString(1).toString());
                    }
                }
            }
        }
    }
}
