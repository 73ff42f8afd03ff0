package lakebed.kit;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import org.apache.avro.generic.IndexedRecord;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;

/** Creates a data file in the directory of its table. */
final class PlacedFile {
  private static final String PATH = "file_path";

  private PlacedFile() {}

  /**
   * Sets the file's path to the table's directory and writes a file of the stated size existing.
   *
   * <p>Changes the given object, so that later reads of the table's files have the new path.
   */
  static void in(Table table, DataFile file) {
    String path = file.location();
    String placed = String.format("%s/data/%s", table.location(), path.substring(path.lastIndexOf('/') + 1));
    IndexedRecord fields = (IndexedRecord) file;
    fields.put(fields.getSchema().getField(PATH).pos(), placed);
    FileIO io = table.io();
    InputFile existing = io.newInputFile(placed);
    if (existing.exists() && existing.getLength() == file.fileSizeInBytes()) {
      return;
    }
    try (OutputStream stream = io.newOutputFile(placed).createOrOverwrite()) {
      stream.write(new byte[Math.toIntExact(file.fileSizeInBytes())]);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
