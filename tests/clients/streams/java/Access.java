import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.client.admin.Admin;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.writer.AppendWriter;
import org.apache.fluss.config.Configuration;
import org.apache.fluss.exception.AuthenticationException;
import org.apache.fluss.exception.AuthorizationException;
import org.apache.fluss.metadata.DatabaseDescriptor;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.metadata.TablePath;
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

/** Connects with invalid credentials, which must be refused; prints failures. */
public final class Access extends Probe {
    public static void main(String[] words) throws Exception {
        String address = words[0];
        // Failed logins are throttled per user, so this user differs from that of the other steps.
        String user = words[4];
        String secret = words[5];
        String wrong = words[6];
        for (String[] said : new String[][] {
            {user, wrong}, {user, ""}, {user, secret + " "}, {"NOBODYOFTHATNAME1234", wrong}, {"", wrong}
        }) {
            step("not as '" + said[0] + "' with a secret of " + said[1].length(), () -> shut(settings(address, said[0], said[1])));
        }
        step("not without saying who", () -> {
            Configuration silent = new Configuration();
            silent.setString("bootstrap.servers", address);
            shut(silent);
        });
        step("not by another mechanism", () -> {
            Configuration other = settings(address, user, secret);
            other.setString("client.security.sasl.mechanism", "SCRAM-SHA-256");
            shut(other);
        });
        try (Connection root = connect(address, words[1], words[2]);
                Connection other = connect(address, user, secret)) {
            taken(root, other, words[3]);
        }
        end();
    }

    /** No call succeeds on such a connection. */
    private static void shut(Configuration said) throws Exception {
        try (Connection made = ConnectionFactory.createConnection(said)) {
            got(made.getAdmin().listDatabases());
        } catch (Exception problem) {
            for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                if (cause instanceof AuthenticationException) {
                    return;
                }
            }
            // The client fails before it sends a request.
            if (!said.toMap().getOrDefault("client.security.sasl.mechanism", "PLAIN").equals("PLAIN")) {
                return;
            }
            throw problem;
        }
        throw new AssertionError("was let in");
    }

    private static void taken(Connection root, Connection other, String name) throws Exception {
        Admin admin = root.getAdmin();
        TablePath path = TablePath.of("java_access", "t");
        got(admin.createDatabase(path.getDatabaseName(), DatabaseDescriptor.EMPTY, false));
        Schema schema = Schema.newBuilder().column("id", DataTypes.INT()).build();
        got(admin.createTable(path, TableDescriptor.builder().schema(schema).distributedBy(1).build(), false));
        FlussPrincipal who = new FlussPrincipal(name, "User");
        List<AclBinding> given = Arrays.asList(
                new AclBinding(Resource.table(path), new AccessControlEntry(who, "*", OperationType.WRITE, PermissionType.ALLOW)),
                new AclBinding(Resource.table(path), new AccessControlEntry(who, "*", OperationType.READ, PermissionType.ALLOW)));
        got(admin.createAcls(given).all());
        step("a writer whose right is taken away", () -> {
            try (Table table = other.getTable(path)) {
                AppendWriter writer = table.newAppend().createWriter();
                got(writer.append(GenericRow.of(1)));
                got(admin.dropAcls(Collections.singletonList(new AclBindingFilter(
                                ResourceFilter.ANY,
                                new AccessControlEntryFilter(who, null, OperationType.ANY, PermissionType.ANY))))
                        .all());
                refused(AuthorizationException.class, other.getAdmin().getTableInfo(path));
                // Permissions of writes are cached for up to two seconds.
                for (int turn = 0; ; turn++) {
                    try {
                        got(writer.append(GenericRow.of(2)));
                    } catch (ExecutionException problem) {
                        same(AuthorizationException.class, problem.getCause().getClass());
                        return;
                    }
                    if (turn == 100) {
                        throw new AssertionError("it still writes");
                    }
                    Thread.sleep(100);
                }
            }
        });
        got(admin.dropDatabase(path.getDatabaseName(), false, true));
    }
}
