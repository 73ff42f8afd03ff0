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
 * A catalog through which files that are appended to a table are there, and in its directory, if that is asked for.
 *
 * <p>The kit appends files that it has never written, by paths that belong to no table. Lakebed takes neither. Everything
 * but such an append is passed on as it is.
 */
interface PlacingCatalog extends Catalog, SupportsNamespaces, Closeable {

  static PlacingCatalog of(RESTCatalog catalog) {
    return standIn(PlacingCatalog.class, catalog, null);
  }

  /** A table that has its appends find their files. */
  @SuppressWarnings("serial") // nobody sends it anywhere
  final class PlacingTable extends BaseTable {
    PlacingTable(BaseTable table) {
      super(table.operations(), table.name(), table.reporter());
    }

    @Override
    public AppendFiles newAppend() {
      return standIn(AppendFiles.class, super.newAppend(), this);
    }

    @Override
    public AppendFiles newFastAppend() {
      return standIn(AppendFiles.class, super.newFastAppend(), this);
    }

    @Override
    public Transaction newTransaction() {
      return standIn(Transaction.class, super.newTransaction(), null);
    }
  }

  /** Something that passes all calls on to another, and answers with stand-ins where appends may follow. */
  private static <T> T standIn(Class<T> kind, Object real, Table home) {
    InvocationHandler passOn =
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
          return answer == real ? self : standInIfNeeded(answer, real);
        };
    return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, passOn));
  }

  private static Object standInIfNeeded(Object answer, Object giver) {
    if (answer != null && answer.getClass() == BaseTable.class) {
      return new PlacingTable((BaseTable) answer);
    } else if (answer instanceof Catalog.TableBuilder) {
      return standIn(Catalog.TableBuilder.class, answer, null);
    } else if (answer instanceof Transaction) {
      return standIn(Transaction.class, answer, null);
    } else if (answer instanceof AppendFiles && giver instanceof Transaction) {
      return standIn(AppendFiles.class, answer, ((Transaction) giver).table());
    }
    return answer;
  }
}
