package lakebed.kit;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.rest.RESTCatalog;

/** The table bucket that is tested: how to reach it, and how to empty it. */
final class Lake {
  private static final String SETTINGS = "LAKEBED_KIT_SETTINGS";
  private static final String PLACES_FILES = "kit.places-files";

  private Lake() {}

  /** A client of the bucket, with the settings of the file named by the environment, and these. */
  static RESTCatalog connect(String name, Map<String, String> more) {
    Map<String, String> settings = new HashMap<>(settings());
    settings.putAll(more);
    RESTCatalog catalog = new RESTCatalog();
    catalog.initialize(name, settings);
    return catalog;
  }

  /** A location in the bucket. */
  static String location(String... path) {
    return String.format("s3://%s/requested/%s", settings().get("warehouse"), String.join("/", path));
  }

  /** Whether appended files are created first. */
  static boolean placesFiles() {
    return Boolean.parseBoolean(settings().get(PLACES_FILES));
  }

  /** Drops all tables, views and namespaces: tests use fixed names and do not clean up. */
  static void empty(RESTCatalog catalog) {
    catalog.listNamespaces().forEach(namespace -> drop(catalog, namespace));
  }

  private static void drop(RESTCatalog catalog, Namespace namespace) {
    catalog.listNamespaces(namespace).forEach(inner -> drop(catalog, inner));
    catalog.listTables(namespace).forEach(catalog::dropTable);
    catalog.listViews(namespace).forEach(catalog::dropView);
    catalog.dropNamespace(namespace);
  }

  private static Map<String, String> settings() {
    Properties read = new Properties();
    try (InputStream file = Files.newInputStream(Path.of(System.getenv(SETTINGS)))) {
      read.load(file);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    Map<String, String> settings = new HashMap<>();
    read.stringPropertyNames().forEach(name -> settings.put(name, read.getProperty(name)));
    return settings;
  }
}
