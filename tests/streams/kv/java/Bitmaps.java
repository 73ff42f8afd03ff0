import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/** Writes bitmaps to files; after the test has joined each with the next, reads and checks the results. */
public class Bitmaps {
    private static final int COUNT = 40;

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[1]);
        List<Roaring64Bitmap> bitmaps = bitmaps();
        for (int number = 0; number < COUNT; number++) {
            Roaring64Bitmap one = bitmaps.get(number);
            RoaringBitmap small = small(one);
            if (arguments[0].equals("write")) {
                Files.write(folder.resolve(number + ".64"), written(one));
                Files.write(folder.resolve(number + ".32"), written(small));
                continue;
            }
            Roaring64Bitmap other = bitmaps.get((number + 1) % COUNT);
            RoaringBitmap smallBoth = RoaringBitmap.or(small, small(other));
            Roaring64Bitmap both = new Roaring64Bitmap();
            one.forEach(both::addLong);
            other.forEach(both::addLong);
            check(both, Files.readAllBytes(folder.resolve(number + ".64.joined")));
            RoaringBitmap found = new RoaringBitmap();
            found.deserialize(ByteBuffer.wrap(Files.readAllBytes(folder.resolve(number + ".32.joined"))));
            require(found.equals(smallBoth), "32 bits of " + number);
        }
        System.out.println("all is well");
    }

    private static void check(Roaring64Bitmap expected, byte[] joined) throws Exception {
        Roaring64Bitmap found = new Roaring64Bitmap();
        found.deserialize(new DataInputStream(new ByteArrayInputStream(joined)));
        require(Arrays.equals(found.toArray(), expected.toArray()), "numbers");
        require(found.equals(expected) && expected.equals(found), "the same");
        for (long number : expected.toArray()) {
            require(found.contains(number), "contains " + number);
        }
        // A bitmap that was read can be changed and written again.
        found.addLong(-77L);
        found.removeLong(expected.isEmpty() ? -77L : expected.first());
        Roaring64Bitmap again = new Roaring64Bitmap();
        again.deserialize(ByteBuffer.wrap(written(found)));
        require(again.equals(found), "written again");
    }

    /** Trees with every kind of node and container, some after removals. */
    private static List<Roaring64Bitmap> bitmaps() {
        Random chance = new Random(11);
        List<Roaring64Bitmap> bitmaps = new ArrayList<>();
        bitmaps.add(new Roaring64Bitmap());
        for (int children : new int[] {1, 4, 5, 16, 17, 48, 49, 255, 256}) {
            for (int shift : new int[] {16, 32, 56}) {
                Roaring64Bitmap bitmap = new Roaring64Bitmap();
                for (long child = 0; child < children; child++) {
                    bitmap.addLong((child << shift) | chance.nextInt(1 << 16));
                }
                bitmaps.add(bitmap);
            }
        }
        while (bitmaps.size() < COUNT) {
            Roaring64Bitmap bitmap = new Roaring64Bitmap();
            int kind = bitmaps.size() % 4;
            for (int number = 0; number < 3000; number++) {
                bitmap.addLong(kind == 0 ? chance.nextLong() : chance.nextInt(kind == 1 ? 10_000 : 1 << 22) + (1L << 35));
            }
            if (kind == 2) {
                bitmap.addRange(1L << 35, (1L << 35) + 200_000);
                bitmap.runOptimize();
            }
            if (kind == 3) {
                for (int number = 0; number < 1500; number++) {
                    bitmap.removeLong(bitmap.select(chance.nextInt((int) bitmap.getLongCardinality())));
                }
            }
            bitmaps.add(bitmap);
        }
        return bitmaps;
    }

    private static RoaringBitmap small(Roaring64Bitmap bitmap) {
        RoaringBitmap small = new RoaringBitmap();
        bitmap.forEach((long number) -> small.add((int) number));
        small.runOptimize();
        return small;
    }

    private static byte[] written(Roaring64Bitmap bitmap) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        bitmap.serialize(new DataOutputStream(out));
        return out.toByteArray();
    }

    private static byte[] written(RoaringBitmap bitmap) {
        ByteBuffer out = ByteBuffer.allocate(bitmap.serializedSizeInBytes());
        bitmap.serialize(out);
        return out.array();
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
