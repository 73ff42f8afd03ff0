package lakebed.kit;

import java.io.IOException;
import java.util.Map;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.view.ViewCatalogTests;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;

/** The kit's tests of views. */
class TestViews extends ViewCatalogTests<RESTCatalog> {
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
  protected RESTCatalog catalog() {
    return connection;
  }

  @Override
  protected Catalog tableCatalog() {
    return connection;
  }

  /** The kit's default location is on a local disk. */
  @Override
  protected String viewLocation(String... path) {
    return Lake.location(path);
  }

  @Override
  protected boolean requiresNamespaceCreate() {
    return true;
  }

  @Override
  protected boolean supportsServerSideRetry() {
    return true;
  }
}
