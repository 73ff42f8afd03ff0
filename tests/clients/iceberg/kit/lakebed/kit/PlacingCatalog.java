package lakebed.kit;

import java.io.Closeable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.rest.RESTCatalog;

/**
 * A catalog that creates appended files in the directory of their table, if so configured.
 *
 * <p>The kit appends files that do not exist, at paths outside of the table. Lakebed rejects both. Every other call is
 * forwarded unchanged.
 */
interface PlacingCatalog extends Catalog, SupportsNamespaces, Closeable {

  static PlacingCatalog of(RESTCatalog catalog) {
    return proxy(PlacingCatalog.class, catalog, null);
  }

  /** A table whose appends create their files. */
  @SuppressWarnings("serial") // never serialized
  final class PlacingTable extends BaseTable {
    PlacingTable(BaseTable table) {
      super(table.operations(), table.name(), table.reporter());
    }

    @Override
    public AppendFiles newAppend() {
      return proxy(AppendFiles.class, super.newAppend(), this);
    }

    @Override
    public AppendFiles newFastAppend() {
      return proxy(AppendFiles.class, super.newFastAppend(), this);
    }

    @Override
    public Transaction newTransaction() {
      return proxy(Transaction.class, super.newTransaction(), null);
    }
  }

  /** A proxy that forwards all calls and returns proxies from which appends can follow. */
  private static <T> T proxy(Class<T> kind, Object real, Table home) {
    InvocationHandler forward =
        (self, method, arguments) -> {
          boolean appends = real instanceof AppendFiles && method.getName().equals("appendFile");
          if (appends && Lake.placesFiles()) {
            PlacedFile.in(home, (DataFile) arguments[0]);
          }
          Object answer;
          try {
            answer = method.invoke(real, arguments);
          } catch (InvocationTargetException failed) {
            throw failed.getCause();
          }
          return answer == real ? self : proxyIfNeeded(answer, real);
        };
    return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, forward));
  }

  private static Object proxyIfNeeded(Object answer, Object giver) {
    if (answer != null && answer.getClass() == BaseTable.class) {
      return new PlacingTable((BaseTable) answer);
    } else if (answer instanceof Catalog.TableBuilder) {
      return proxy(Catalog.TableBuilder.class, answer, null);
    } else if (answer instanceof Transaction) {
      return proxy(Transaction.class, answer, null);
    } else if (answer instanceof AppendFiles && giver instanceof Transaction) {
      return proxy(AppendFiles.class, answer, ((Transaction) giver).table());
    }
    return answer;
  }
}
