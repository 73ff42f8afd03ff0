package lakebed.kit;

import java.io.IOException;
import java.util.Map;
import org.apache.iceberg.catalog.CatalogTests;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTCatalog;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;

/** The kit's tests of namespaces and tables. */
class TestTables extends CatalogTests<PlacingCatalog> {
  private static RESTCatalog connection;

  @BeforeAll
  static void connect() {
    connection = Lake.connect("lake", Map.of());
  }

  @AfterAll
  static void disconnect() throws IOException {
    connection.close();
  }

  @BeforeEach
  void empty() {
    Lake.empty(connection);
  }

  @Override
  protected PlacingCatalog catalog() {
    return PlacingCatalog.of(connection);
  }

  @Override
  protected PlacingCatalog initCatalog(String name, Map<String, String> more) {
    return PlacingCatalog.of(Lake.connect(name, more));
  }

  /** The kit's default location is on a local disk. */
  @Override
  protected String baseTableLocation(TableIdentifier name) {
    return Lake.location(name.namespace().toString(), name.name());
  }

  @Override
  protected boolean requiresNamespaceCreate() {
    return true;
  }

  @Override
  protected boolean supportsServerSideRetry() {
    return true;
  }

  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }

  @Override
  protected boolean supportsNamesWithDot() {
    return true;
  }

  /** Names have no slash: proxies may decode an escaped slash into a path separator. */
  @Override
  protected boolean supportsNamesWithSlashes() {
    return false;
  }
}
