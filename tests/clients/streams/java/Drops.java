import java.time.Duration;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.admin.Admin;
import org.apache.fluss.client.lookup.Lookuper;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.scanner.ScanRecord;
import org.apache.fluss.client.table.scanner.log.LogScanner;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.exception.UnknownWriterIdException;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.PartitionInfo;
import org.apache.fluss.metadata.PartitionSpec;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableChange;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.row.InternalRow;
import org.apache.fluss.types.DataTypes;

/** Drops partitions while a scanner, a writer and a lookuper use them, which must continue; prints failures. */
public final class Drops extends Probe {
    private static final Duration WAIT = Duration.ofMillis(500);
    private static final int TURNS = 60;

    public static void main(String[] words) throws Exception {
        try (Connection connection = connect(words[0], words[1], words[2]); Admin admin = connection.getAdmin()) {
            String database = "java_drops";
            got(admin.createDatabase(database, DatabaseDescriptor.EMPTY, false));
            scanner(connection, admin, TablePath.of(database, "scanned"));
            retention(connection, admin, TablePath.of(database, "by_day"));
            appends(connection, admin, TablePath.of(database, "appended"));
            keys(connection, admin, TablePath.of(database, "keyed"));
            got(admin.dropDatabase(database, false, true));
        }
        end();
    }

    private static TableDescriptor.Builder table(String... key) {
        Schema.Builder schema = Schema.newBuilder().column("id", DataTypes.INT()).column("region", DataTypes.STRING());
        if (key.length > 0) {
            schema.primaryKey(key);
        }
        TableDescriptor.Builder made = TableDescriptor.builder().schema(schema.build()).partitionedBy("region");
        return key.length > 0 ? made.distributedBy(1, "id") : made.distributedBy(1);
    }

    private static PartitionSpec region(String value) {
        return new PartitionSpec(Collections.singletonMap("region", value));
    }

    private static Map<String, Long> ids(Admin admin, TablePath path) throws Exception {
        Map<String, Long> found = new HashMap<>();
        for (PartitionInfo each : got(admin.listPartitionInfos(path))) {
            found.put(each.getPartitionName(), each.getPartitionId());
        }
        return found;
    }

    private static GenericRow row(int id, String region) {
        return GenericRow.of(id, BinaryString.fromString(region));
    }

    /** Polls until all of these ids are read; a failing poll is a failure. */
    private static void read(LogScanner scanner, Integer... wanted) {
        TreeSet<Integer> left = new TreeSet<>(Arrays.asList(wanted));
        for (int turn = 0; turn < TURNS && !left.isEmpty(); turn++) {
            for (ScanRecord record : scanner.poll(WAIT)) {
                left.remove(record.getRow().getInt(0));
            }
        }
        same(new TreeSet<Integer>(), left);
    }

    private static void scanner(Connection connection, Admin admin, TablePath path) throws Exception {
        got(admin.createTable(path, table().build(), false));
        got(admin.createPartition(path, region("EU"), false));
        got(admin.createPartition(path, region("US"), false));
        Map<String, Long> ids = ids(admin, path);
        try (Table table = connection.getTable(path);
                LogScanner scanner = table.newScan().createLogScanner()) {
            AppendWriter writer = table.newAppend().createWriter();
            scanner.subscribeFromBeginning(ids.get("EU"), 0);
            scanner.subscribeFromBeginning(ids.get("US"), 0);
            step("read two partitions", () -> {
                got(writer.append(row(1, "EU")));
                got(writer.append(row(2, "US")));
                read(scanner, 1, 2);
            });
            step("go on with one when the other is dropped", () -> {
                got(admin.dropPartition(path, region("EU"), false));
                for (int id = 10; id < 16; id++) {
                    got(writer.append(row(id, "US")));
                    read(scanner, id);
                }
                scanner.poll(WAIT);
            });
            step("read the partition that is made again", () -> {
                got(admin.createPartition(path, region("EU"), false));
                scanner.unsubscribe(ids.get("EU"), 0);
                scanner.subscribeFromBeginning(ids(admin, path).get("EU"), 0);
                got(writer.append(row(20, "EU")));
                got(writer.append(row(21, "US")));
                read(scanner, 20, 21);
            });
        }
    }

    private static void retention(Connection connection, Admin admin, TablePath path) throws Exception {
        DateTimeFormatter names = DateTimeFormatter.ofPattern("yyyyMMdd");
        LocalDate today = LocalDate.now(ZoneOffset.UTC);
        String old = names.format(today.minusDays(3));
        String now = names.format(today);
        got(admin.createTable(
                path,
                table().property("table.auto-partition.enabled", "true")
                        .property("table.auto-partition.time-unit", "DAY")
                        .property("table.auto-partition.time-zone", "UTC")
                        .property("table.auto-partition.num-retention", "7")
                        .build(),
                false));
        got(admin.createPartition(path, region(old), true));
        Map<String, Long> ids = ids(admin, path);
        try (Table table = connection.getTable(path);
                LogScanner scanner = table.newScan().createLogScanner()) {
            AppendWriter writer = table.newAppend().createWriter();
            scanner.subscribeFromBeginning(ids.get(old), 0);
            scanner.subscribeFromBeginning(ids.get(now), 0);
            step("read days", () -> {
                got(writer.append(row(1, old)));
                got(writer.append(row(2, now)));
                read(scanner, 1, 2);
            });
            step("go on when retention drops a day", () -> {
                got(admin.alterTable(
                        path,
                        Collections.singletonList(TableChange.set("table.auto-partition.num-retention", "2")),
                        false));
                same(false, ids(admin, path).containsKey(old));
                for (int id = 10; id < 13; id++) {
                    got(writer.append(row(id, now)));
                    read(scanner, id);
                }
            });
        }
    }

    private static void appends(Connection connection, Admin admin, TablePath path) throws Exception {
        got(admin.createTable(path, table().build(), false));
        got(admin.createPartition(path, region("EU"), false));
        try (Table table = connection.getTable(path)) {
            AppendWriter writer = table.newAppend().createWriter();
            for (int id = 0; id < 3; id++) {
                got(writer.append(row(id, "EU")));
            }
            got(admin.dropPartition(path, region("EU"), false));
            got(admin.createPartition(path, region("EU"), false));
            List<Integer> written = new ArrayList<>();
            step("append to a partition that is made again", () -> {
                for (int id = 10; id < 18; id++) {
                    if (acknowledged(id, writer.append(row(id, "EU")))) {
                        written.add(id);
                    }
                }
            });
            step("read what was appended", () -> {
                try (LogScanner scanner = table.newScan().createLogScanner()) {
                    scanner.subscribeFromBeginning(ids(admin, path).get("EU"), 0);
                    read(scanner, written.toArray(new Integer[0]));
                }
            });
        }
    }

    private static void keys(Connection connection, Admin admin, TablePath path) throws Exception {
        got(admin.createTable(path, table("id", "region").build(), false));
        got(admin.createPartition(path, region("EU"), false));
        try (Table table = connection.getTable(path)) {
            UpsertWriter writer = table.newUpsert().createWriter();
            Lookuper lookuper = table.newLookup().createLookuper();
            for (int id = 0; id < 3; id++) {
                got(writer.upsert(row(id, "EU")));
            }
            same(1, got(lookuper.lookup(row(1, "EU"))).getSingletonRow().getInt(0));
            got(admin.dropPartition(path, region("EU"), false));
            step("look up in a dropped partition", () -> {
                for (int turn = 0; turn < 2; turn++) {
                    same(null, got(lookuper.lookup(row(1, "EU"))).getSingletonRow());
                }
            });
            got(admin.createPartition(path, region("EU"), false));
            step("upsert and look up in a partition that is made again", () -> {
                for (int id = 10; id < 18; id++) {
                    boolean isWritten = acknowledged(id, writer.upsert(row(id, "EU")));
                    InternalRow found = got(lookuper.lookup(row(id, "EU"))).getSingletonRow();
                    same(isWritten ? id : null, found == null ? null : found.getInt(0));
                }
            });
        }
    }

    /** Whether a write succeeds. The first may fail: its batch sequence is of the dropped partition. */
    private static boolean acknowledged(int id, CompletableFuture<?> written) throws Exception {
        try {
            got(written);
            return true;
        } catch (ExecutionException problem) {
            if (id == 10 && problem.getCause() instanceof UnknownWriterIdException) {
                return false;
            }
            throw problem;
        }
    }
}
