import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeSet;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.admin.Admin;
import org.apache.fluss.client.admin.ClusterHealth;
import org.apache.fluss.client.admin.ClusterHealthStatus;
import org.apache.fluss.client.admin.ProducerOffsetsResult;
import org.apache.fluss.client.admin.RegisterResult;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.cluster.ServerNode;
import org.apache.fluss.cluster.rebalance.GoalType;
import org.apache.fluss.cluster.rebalance.RebalanceProgress;
import org.apache.fluss.cluster.rebalance.RebalanceStatus;
import org.apache.fluss.cluster.rebalance.ServerTag;
import org.apache.fluss.config.cluster.AlterConfig;
import org.apache.fluss.config.cluster.AlterConfigOpType;
import org.apache.fluss.config.cluster.ConfigEntry;
import org.apache.fluss.exception.AuthorizationException;
import org.apache.fluss.exception.ConfigException;
import org.apache.fluss.exception.InvalidAlterTableException;
import org.apache.fluss.exception.LakeTableSnapshotNotExistException;
import org.apache.fluss.exception.NoRebalanceInProgressException;
import org.apache.fluss.exception.SchemaNotExistException;
import org.apache.fluss.exception.ServerNotExistException;
import org.apache.fluss.exception.ServerTagAlreadyExistException;
import org.apache.fluss.exception.ServerTagNotExistException;
import org.apache.fluss.exception.UnsupportedVersionException;
import org.apache.fluss.metadata.DatabaseChange;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.DatabaseSummary;
import org.apache.fluss.metadata.PartitionInfo;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.SchemaInfo;
import org.apache.fluss.metadata.TableBucket;
import org.apache.fluss.metadata.TableChange;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TableInfo;
import org.apache.fluss.metadata.TablePath;
import org.apache.fluss.row.BinaryString;
import org.apache.fluss.row.GenericRow;
import org.apache.fluss.security.acl.AccessControlEntry;
import org.apache.fluss.security.acl.AccessControlEntryFilter;
import org.apache.fluss.security.acl.AclBinding;
import org.apache.fluss.security.acl.AclBindingFilter;
import org.apache.fluss.security.acl.FlussPrincipal;
import org.apache.fluss.security.acl.OperationType;
import org.apache.fluss.security.acl.PermissionType;
import org.apache.fluss.security.acl.Resource;
import org.apache.fluss.security.acl.ResourceFilter;
import org.apache.fluss.types.DataTypes;

/** Runs every admin call against a stream server and prints failures. */
public final class Administration extends Probe {
    public static void main(String[] words) throws Exception {
        String address = words[0];
        try (Connection root = connect(address, words[1], words[2]);
                Connection other = connect(address, words[4], words[5])) {
            administer(root, root.getAdmin(), other.getAdmin(), words[3]);
        }
        end();
    }

    private static void administer(Connection root, Admin admin, Admin others, String otherUser) throws Exception {
        String database = "java_admin";
        TablePath path = TablePath.of(database, "orders");
        Schema schema =
                Schema.newBuilder().column("id", DataTypes.INT()).column("name", DataTypes.STRING()).build();

        step("a database, its summary, its changes", () -> {
            got(admin.createDatabase(database, DatabaseDescriptor.builder().comment("first").build(), false));
            got(admin.alterDatabase(
                    database, Arrays.asList(DatabaseChange.set("k", "v"), DatabaseChange.updateComment("second")), false));
            same(Optional.of("second"), got(admin.getDatabaseInfo(database)).getDatabaseDescriptor().getComment());
            same("v", got(admin.getDatabaseInfo(database)).getDatabaseDescriptor().getCustomProperties().get("k"));
            got(admin.alterDatabase(database, Collections.singletonList(DatabaseChange.reset("k")), false));
            same(null, got(admin.getDatabaseInfo(database)).getDatabaseDescriptor().getCustomProperties().get("k"));
            got(admin.createTable(path, TableDescriptor.builder().schema(schema).distributedBy(2).build(), false));
            DatabaseSummary summary = null;
            for (DatabaseSummary each : got(admin.listDatabaseSummaries())) {
                if (each.getDatabaseName().equals(database)) {
                    summary = each;
                }
            }
            same(1, Objects.requireNonNull(summary).getTableCount());
        });

        step("schemas of a table, and its changes", () -> {
            SchemaInfo first = got(admin.getTableSchema(path));
            same(1, first.getSchemaId());
            got(admin.alterTable(
                    path,
                    Collections.singletonList(TableChange.addColumn(
                            "note", DataTypes.STRING(), "later", TableChange.ColumnPosition.last())),
                    false));
            SchemaInfo second = got(admin.getTableSchema(path));
            same(2, second.getSchemaId());
            same(Arrays.asList("id", "name", "note"), second.getSchema().getColumnNames());
            same(first.getSchema(), got(admin.getTableSchema(path, 1)).getSchema());
            refused(SchemaNotExistException.class, admin.getTableSchema(path, 9));
            got(admin.alterTable(path, Arrays.asList(TableChange.set("table.log.ttl", "1 d"), TableChange.set("own", "x")), false));
            TableInfo info = got(admin.getTableInfo(path));
            same("1 d", info.getProperties().toMap().get("table.log.ttl"));
            same("x", info.getCustomProperties().toMap().get("own"));
            got(admin.alterTable(path, Collections.singletonList(TableChange.reset("own")), false));
            refused(InvalidAlterTableException.class, admin.alterTable(
                    path, Collections.singletonList(TableChange.set("table.log.format", "INDEXED")), false));
            refused(InvalidAlterTableException.class, admin.alterTable(
                    path, Collections.singletonList(TableChange.dropColumn("note")), false));
            // The number of buckets is fixed: the API version that could change it is not supported.
            refused(UnsupportedVersionException.class, admin.alterTable(
                    path, Collections.singletonList(TableChange.modifyBucketCount(5)), false));
            got(admin.alterTable(
                    TablePath.of(database, "nothing"), Collections.singletonList(TableChange.set("own", "x")), true));
        });

        step("rows of a table", () -> {
            same(0L, got(admin.getTableStats(path)).getRowCount());
            try (Table table = root.getTable(path)) {
                AppendWriter writer = table.newAppend().createWriter();
                for (int number = 0; number < 100; number++) {
                    writer.append(GenericRow.of(number, BinaryString.fromString("n" + number), null));
                }
                writer.flush();
            }
            same(100L, got(admin.getTableStats(path)).getRowCount());
        });

        step("health", () -> {
            ClusterHealth health = got(admin.getClusterHealth());
            same(ClusterHealthStatus.GREEN, health.getStatus());
            same(health.getNumLeaderReplicas(), health.getActiveLeaderReplicas());
            if (health.getNumReplicas() < 2) {
                throw new AssertionError("two buckets at least, found " + health.getNumReplicas());
            }
        });

        step("configs", () -> {
            got(admin.alterClusterConfigs(
                    Collections.singletonList(new AlterConfig("default.bucket.number", "3", AlterConfigOpType.SET))));
            same("3 DYNAMIC_SERVER_CONFIG", config(admin, "default.bucket.number"));
            TablePath three = TablePath.of(database, "three");
            got(admin.createTable(three, TableDescriptor.builder().schema(schema).build(), false));
            same(3, got(admin.getTableInfo(three)).getNumBuckets());
            got(admin.alterClusterConfigs(
                    Collections.singletonList(new AlterConfig("default.bucket.number", null, AlterConfigOpType.DELETE))));
            same("1 INITIAL_SERVER_CONFIG", config(admin, "default.bucket.number"));
            refused(ConfigException.class, admin.alterClusterConfigs(
                    Collections.singletonList(new AlterConfig("nonsense", "1", AlterConfigOpType.SET))));
        });

        step("tags of servers", () -> {
            int server = -1;
            for (ServerNode node : got(admin.getServerNodes())) {
                if (node.serverType().name().equals("TABLET_SERVER")) {
                    server = node.id();
                }
            }
            List<Integer> servers = Collections.singletonList(server);
            got(admin.addServerTag(servers, ServerTag.TEMPORARY_OFFLINE));
            refused(ServerTagAlreadyExistException.class, admin.addServerTag(servers, ServerTag.PERMANENT_OFFLINE));
            got(admin.removeServerTag(servers, ServerTag.TEMPORARY_OFFLINE));
            refused(ServerTagNotExistException.class, admin.removeServerTag(servers, ServerTag.TEMPORARY_OFFLINE));
            refused(ServerNotExistException.class,
                    admin.addServerTag(Collections.singletonList(4711), ServerTag.PERMANENT_OFFLINE));
        });

        step("plans", () -> {
            same(false, got(admin.listRebalanceProgress(null)).isPresent());
            String id = got(admin.rebalance(Arrays.asList(GoalType.REPLICA_DISTRIBUTION, GoalType.LEADER_DISTRIBUTION)));
            RebalanceProgress progress = got(admin.listRebalanceProgress(id)).get();
            same(RebalanceStatus.COMPLETED, progress.status());
            refused(NoRebalanceInProgressException.class, admin.cancelRebalance(id));
        });

        step("offsets of producers", () -> {
            long table = got(admin.getTableInfo(path)).getTableId();
            Map<TableBucket, Long> offsets = Collections.singletonMap(new TableBucket(table, 0), 42L);
            same(null, got(admin.getProducerOffsets("job-java")));
            same(RegisterResult.CREATED, got(admin.registerProducerOffsets("job-java", offsets)));
            same(RegisterResult.ALREADY_EXISTS, got(admin.registerProducerOffsets("job-java", Collections.emptyMap())));
            ProducerOffsetsResult found = got(admin.getProducerOffsets("job-java"));
            same(offsets, found.getTableOffsets().get(table));
            got(admin.deleteProducerOffsets("job-java"));
            same(null, got(admin.getProducerOffsets("job-java")));
        });

        step("the lake", () -> refused(LakeTableSnapshotNotExistException.class, admin.getLatestLakeSnapshot(path)));

        step("partitions by time", () -> {
            TablePath daily = TablePath.of(database, "daily");
            got(admin.createTable(
                    daily,
                    TableDescriptor.builder()
                            .schema(schema)
                            .partitionedBy("name")
                            .property("table.auto-partition.enabled", "true")
                            .property("table.auto-partition.num-precreate", "3")
                            .build(),
                    false));
            List<PartitionInfo> found = got(admin.listPartitionInfos(daily));
            same(3, found.size());
        });

        step("access", () -> {
            FlussPrincipal who = new FlussPrincipal(otherUser, "User");
            same(Collections.emptyList(), got(others.listTables(database)));
            refused(AuthorizationException.class, others.getTableInfo(path));
            AclBinding read = new AclBinding(
                    Resource.table(path), new AccessControlEntry(who, "*", OperationType.READ, PermissionType.ALLOW));
            AclBinding alter = new AclBinding(
                    Resource.database(database), new AccessControlEntry(who, "*", OperationType.ALTER, PermissionType.ALLOW));
            got(admin.createAcls(Collections.singletonList(read)).all());
            same(Collections.singletonList("orders"), got(others.listTables(database)));
            same(100L, got(others.getTableStats(path)).getRowCount());
            refused(AuthorizationException.class, others.alterTable(
                    path, Collections.singletonList(TableChange.set("own", "x")), false));
            got(admin.createAcls(Collections.singletonList(alter)).all());
            got(others.alterTable(path, Collections.singletonList(TableChange.set("own", "x")), false));
            refused(AuthorizationException.class, others.listAcls(AclBindingFilter.ANY));
            refused(AuthorizationException.class, others.getClusterHealth());
            AclBindingFilter mine = new AclBindingFilter(
                    ResourceFilter.ANY,
                    new AccessControlEntryFilter(who, null, OperationType.ANY, PermissionType.ANY));
            same(2, got(admin.listAcls(mine)).size());
            Collection<AclBinding> tables = got(admin.listAcls(new AclBindingFilter(
                    new ResourceFilter(Resource.table(path).getType(), Resource.table(path).getName()),
                    AccessControlEntryFilter.ANY)));
            same(Collections.singletonList(read), List.copyOf(tables));
            same(2, got(admin.dropAcls(Collections.singletonList(mine)).all()).size());
            same(0, got(admin.listAcls(mine)).size());
            refused(AuthorizationException.class, others.getTableInfo(path));
            AclBinding nobody = new AclBinding(
                    Resource.cluster(),
                    new AccessControlEntry(new FlussPrincipal("nobody", "User"), "*", OperationType.ALL, PermissionType.ALLOW));
            refused(Throwable.class, admin.createAcls(Collections.singletonList(nobody)).all());
        });

        step("the end", () -> {
            got(admin.dropDatabase(database, false, true));
            same(false, got(admin.databaseExists(database)));
            same(false, new TreeSet<>(got(admin.listDatabases())).contains(database));
        });
    }

    private static String config(Admin admin, String name) throws Exception {
        for (ConfigEntry entry : got(admin.describeClusterConfigs())) {
            if (entry.key().equals(name)) {
                return entry.value() + " " + entry.source();
            }
        }
        return "nothing";
    }
}
