import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.admin.Admin;
import org.apache.fluss.client.admin.KvSnapshotLease;
import org.apache.fluss.client.admin.OffsetSpec;
import org.apache.fluss.client.metadata.KvSnapshots;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.cluster.rebalance.ServerTag;
import org.apache.fluss.exception.InvalidPartitionException;
import org.apache.fluss.exception.InvalidTimestampException;
import org.apache.fluss.exception.KvSnapshotNotExistException;
import org.apache.fluss.exception.LakeTableSnapshotNotExistException;
import org.apache.fluss.exception.NonPrimaryKeyTableException;
import org.apache.fluss.exception.PartitionAlreadyExistsException;
import org.apache.fluss.exception.PartitionNotExistException;
import org.apache.fluss.exception.TableNotExistException;
import org.apache.fluss.exception.UnsupportedVersionException;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.PartitionInfo;
import org.apache.fluss.metadata.PartitionSpec;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.types.DataTypes;

/** Requests partitions, offsets, snapshots and their leases from a stream server; prints failures. */
public final class Places extends Probe {
    public static void main(String[] words) throws Exception {
        try (Connection root = connect(words[0], words[1], words[2]); Admin admin = root.getAdmin()) {
            String database = "java_places";
            got(admin.createDatabase(database, DatabaseDescriptor.EMPTY, false));
            partitions(root, admin, TablePath.of(database, "parts"));
            snapshots(admin, TablePath.of(database, "keys"), TablePath.of(database, "parts"));
            racks(admin);
            step("the end", () -> {
                got(admin.dropTable(TablePath.of(database, "parts"), false));
                same(false, got(admin.tableExists(TablePath.of(database, "parts"))));
                refused(TableNotExistException.class, admin.dropTable(TablePath.of(database, "parts"), false));
                got(admin.dropTable(TablePath.of(database, "parts"), true));
                got(admin.dropDatabase(database, false, true));
            });
        }
        end();
    }

    private static PartitionSpec region(String value) {
        return new PartitionSpec(Collections.singletonMap("region", value));
    }

    private static List<String> names(List<PartitionInfo> found) {
        return found.stream().map(PartitionInfo::getPartitionName).sorted().toList();
    }

    private static void partitions(Connection root, Admin admin, TablePath path) throws Exception {
        Schema schema =
                Schema.newBuilder().column("id", DataTypes.INT()).column("region", DataTypes.STRING()).build();
        step("partitions", () -> {
            got(admin.createTable(
                    path, TableDescriptor.builder().schema(schema).partitionedBy("region").distributedBy(2).build(), false));
            same(true, got(admin.tableExists(path)));
            got(admin.createPartition(path, region("EU"), false));
            got(admin.createPartition(path, region("US"), false));
            got(admin.createPartition(path, region("US"), true));
            refused(PartitionAlreadyExistsException.class, admin.createPartition(path, region("US"), false));
            same(Arrays.asList("EU", "US"), names(got(admin.listPartitionInfos(path))));
            same(Arrays.asList("EU", "US"), names(got(admin.listPartitionInfos(path, true))));
            same(Collections.singletonList("US"), names(got(admin.listPartitionInfos(path, region("US")))));
            refused(InvalidPartitionException.class, admin.createPartition(
                    path, new PartitionSpec(Collections.singletonMap("other", "x")), false));
            got(admin.createPartition(path, region("gone"), false));
            got(admin.dropPartition(path, region("gone"), false));
            got(admin.dropPartition(path, region("gone"), true));
            refused(PartitionNotExistException.class, admin.dropPartition(path, region("gone"), false));
        });
        step("offsets", () -> {
            try (Table table = root.getTable(path)) {
                AppendWriter writer = table.newAppend().createWriter();
                for (int number = 0; number < 10; number++) {
                    writer.append(GenericRow.of(number, BinaryString.fromString("EU")));
                }
                writer.flush();
            }
            List<Integer> buckets = Arrays.asList(0, 1);
            Map<Integer, Long> ends = got(admin.listOffsets(path, "EU", buckets, new OffsetSpec.LatestSpec()).all());
            same(10L, ends.get(0) + ends.get(1));
            same(Map.of(0, 0L, 1, 0L), got(admin.listOffsets(path, "EU", buckets, new OffsetSpec.EarliestSpec()).all()));
            same(Map.of(0, 0L, 1, 0L), got(admin.listOffsets(path, "US", buckets, new OffsetSpec.LatestSpec()).all()));
            same(Map.of(0, 0L, 1, 0L), got(admin.listOffsets(path, "EU", buckets, new OffsetSpec.TimestampSpec(1)).all()));
            refused(InvalidTimestampException.class,
                    admin.listOffsets(path, "EU", buckets, new OffsetSpec.TimestampSpec(1L << 50)).all());
            long id = got(admin.getTableInfo(path)).getTableId();
            long part = got(admin.listPartitionInfos(path, region("EU"))).get(0).getPartitionId();
            same(Collections.emptyList(), got(admin.listRemoteLogManifests(id, part)));
        });
    }

    private static void snapshots(Admin admin, TablePath path, TablePath log) throws Exception {
        Schema schema = Schema.newBuilder()
                .column("id", DataTypes.INT())
                .column("name", DataTypes.STRING())
                .primaryKey("id")
                .build();
        got(admin.createTable(path, TableDescriptor.builder().schema(schema).distributedBy(2, "id").build(), false));
        long id = got(admin.getTableInfo(path)).getTableId();
        TableBucket first = new TableBucket(id, 0);
        step("offsets of a table without partitions", () ->
                same(Map.of(0, 0L), got(admin.listOffsets(path, Collections.singletonList(0), new OffsetSpec.LatestSpec()).all())));
        step("snapshots of keys, where there are none yet", () -> {
            KvSnapshots found = got(admin.getLatestKvSnapshots(path));
            same(new TreeSet<>(Arrays.asList(0, 1)), new TreeSet<>(found.getBucketIds()));
            same(false, found.getSnapshotId(0).isPresent());
            same(false, found.getLogOffset(0).isPresent());
            refused(KvSnapshotNotExistException.class, admin.getKvSnapshotMetadata(first, 7));
            same(Collections.emptyMap(), got(admin.listKvSnapshots(id, null)).getSnapshotIdsByBucket());
            refused(NonPrimaryKeyTableException.class, admin.getLatestKvSnapshots(log, "EU"));
        });
        step("a lease of what is not there", () -> {
            KvSnapshotLease lease = admin.createKvSnapshotLease("java-lease", 60_000);
            same("java-lease", lease.leaseId());
            same(60_000L, lease.leaseDurationMs());
            same(Map.of(first, 7L), got(lease.acquireSnapshots(Map.of(first, 7L))).getUnavailableSnapshots());
            got(lease.renew());
            got(lease.releaseSnapshots(Collections.singleton(first)));
            got(lease.dropLease());
        });
        step("snapshots of the lake, where there are none", () -> {
            refused(LakeTableSnapshotNotExistException.class, admin.getLakeSnapshot(path, 7));
            refused(LakeTableSnapshotNotExistException.class, admin.getReadableLakeSnapshot(path));
        });
    }

    private static void racks(Admin admin) {
        // Servers have no racks: calls with racks are not supported.
        step("racks", () -> {
            List<String> racks = Collections.singletonList("r1");
            refused(UnsupportedVersionException.class, admin.addServerTagByRack(racks, ServerTag.TEMPORARY_OFFLINE));
            refused(UnsupportedVersionException.class, admin.removeServerTagByRack(racks, ServerTag.TEMPORARY_OFFLINE));
        });
    }
}
