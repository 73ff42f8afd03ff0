package lakebed.kit;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import org.apache.avro.generic.IndexedRecord;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;

/** Has a file be where a table may have it. */
final class PlacedFile {
  private static final String PATH = "file_path";

  private PlacedFile() {}

  /**
   * Gives the file a path in the table's directory, and writes as many bytes there as it is said to have.
   *
   * <p>The very same object is changed, so that whoever asks a table for its files finds this one's path.
   */
  static void in(Table table, DataFile file) {
    String path = file.location();
    String placed = String.format("%s/data/%s", table.location(), path.substring(path.lastIndexOf('/') + 1));
    IndexedRecord fields = (IndexedRecord) file;
    fields.put(fields.getSchema().getField(PATH).pos(), placed);
    FileIO io = table.io();
    InputFile there = io.newInputFile(placed);
    if (there.exists() && there.getLength() == file.fileSizeInBytes()) {
      return;
    }
    try (OutputStream stream = io.newOutputFile(placed).createOrOverwrite()) {
      stream.write(new byte[Math.toIntExact(file.fileSizeInBytes())]);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
