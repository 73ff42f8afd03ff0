import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.fluss.client.Connection;
import org.apache.fluss.client.ConnectionFactory;
import org.apache.fluss.config.Configuration;

/** Shared by the programs: counted steps, and connections as a user. */
abstract class Probe {
    private static int failures = 0;

    interface Step {
        void run() throws Exception;
    }

    static void step(String name, Step step) {
        try {
            step.run();
            System.out.println("ok " + name);
        } catch (Throwable problem) {
            failures++;
            System.out.println("FAILED " + name + ": " + problem);
        }
    }

    static void end() {
        System.out.println(failures == 0 ? "all is well" : failures + " failures");
        System.exit(failures == 0 ? 0 : 1);
    }

    static <T> T got(CompletableFuture<T> future) throws Exception {
        return future.get(30, TimeUnit.SECONDS);
    }

    static void same(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static void refused(Class<? extends Throwable> kind, CompletableFuture<?> future) throws Exception {
        try {
            Object answer = got(future);
            throw new AssertionError("expected " + kind.getSimpleName() + ", found " + answer);
        } catch (ExecutionException problem) {
            if (!kind.isInstance(problem.getCause())) {
                throw new AssertionError("expected " + kind.getSimpleName() + ", found " + problem.getCause());
            }
        }
    }

    static Configuration settings(String address, String user, String secret) {
        Configuration said = new Configuration();
        said.setString("bootstrap.servers", address);
        said.setString("client.security.protocol", "SASL");
        said.setString("client.security.sasl.mechanism", "PLAIN");
        said.setString("client.security.sasl.username", user);
        said.setString("client.security.sasl.password", secret);
        return said;
    }

    static Connection connect(String address, String user, String secret) {
        return ConnectionFactory.createConnection(settings(address, user, secret));
    }
}
