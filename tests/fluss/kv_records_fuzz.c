/* Feeds `kv_records.c` random records in exactly sized memory, so that a sanitizer reports accesses beyond it. */
#include "../../src/lakebed/fluss/kv_records.c"
#include "chance.h"

#include <stdio.h>
#include <stdlib.h>

/* Writes `count` records, some with a length of several bytes and sometimes with a wrong byte. */
static size_t make(uint8_t *block, int64_t count)
{
    size_t length = 0;
    for (int64_t record = 0; record < count; record++) {
        uint32_t key = draw(4) ? draw(8) : draw(400), row = draw(5) ? draw(300) : 0;
        uint32_t size = (key < 0x80 ? 1 : 2) + key + row;
        for (int shift = 0; shift < 32; shift += 8)
            block[length++] = (uint8_t)(size >> shift);
        if (key >= 0x80)
            block[length++] = (uint8_t)(key | 0x80);
        block[length++] = (uint8_t)(key < 0x80 ? key : key >> 7);
        for (uint32_t left = key + row; left > 0; left--)
            block[length++] = (uint8_t)draw(256);
    }
    for (uint32_t left = draw(2) ? draw(4) : 0; left > 0 && length > 0; left--)
        block[draw(2) ? draw((uint32_t)length) : draw(length < 6 ? (uint32_t)length : 6)] = (uint8_t)draw(256);
    return length > 0 && draw(4) == 0 ? draw((uint32_t)length) : length;
}

/* Joins the values that were read, sometimes with a wrong or missing byte. Returns whether it succeeded. */
static int join(const uint8_t *packed, size_t length)
{
    if (length > 0 && draw(3) == 0)
        length = draw((uint32_t)length);
    uint8_t *block = malloc(length), *out = malloc(2 * length);
    memcpy(block, packed, length);
    if (length > 0 && draw(3) == 0)
        block[draw((uint32_t)length)] = (uint8_t)draw(256);
    int is_joined = lakebed_value_batch(block, (int64_t)length, out) >= 0;
    free(block);
    free(out);
    return is_joined;
}

int main(int argc, char **argv)
{
    enum { MOST_RECORDS = 6, MOST = 8192 };
    static uint8_t made[MOST];
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    long read = 0;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (long round = 0; round < rounds; round++) {
        int64_t count = draw(MOST_RECORDS + 1);
        size_t length = make(made, count), room = 5 + length + 5 * (size_t)count;
        uint8_t *block = malloc(length);
        memcpy(block, made, length);
        uint8_t *keys = malloc(room), *values = malloc(room + 2 * (size_t)count);
        int64_t *starts = malloc((size_t)count * 8), *ends = malloc((size_t)count * 8), used[2];
        if (lakebed_kv_records(block, 0, (int64_t)length, count, 7, keys, values, starts, ends, used) > 0)
            read += 1 + join(values, (size_t)used[1]);
        free(block);
        free(keys);
        free(values);
        free(starts);
        free(ends);
    }
    printf("%ld\n", read);
    return 0;
}
