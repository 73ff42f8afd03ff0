/* Takes the records of a batch of keys apart; see record_scanner.py.
 *
 * It goes over them once and writes keys and values as two arrays of MessagePack, of which a decoder makes objects faster
 * than an interpreter cuts them out of the batch. Whatever is not as it should be it leaves to who can say what it is.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MOST_VARINT_BYTES 5
#define SCHEMA_ID_BYTES 2

enum { NIL = 0xc0, BIN_8 = 0xc4, BIN_16 = 0xc5, BIN_32 = 0xc6, ARRAY_32 = 0xdd };

static uint8_t *write_number(uint8_t *out, uint8_t mark, uint32_t number)
{
    *out++ = mark;
    for (int shift = 24; shift >= 0; shift -= 8)
        *out++ = (uint8_t)(number >> shift);
    return out;
}

/* The head of so many bytes. */
static uint8_t *write_length(uint8_t *out, uint32_t length)
{
    if (length < 1u << 8) {
        *out++ = BIN_8;
    } else if (length < 1u << 16) {
        *out++ = BIN_16;
        *out++ = (uint8_t)(length >> 8);
    } else {
        return write_number(out, BIN_32, length);
    }
    *out++ = (uint8_t)length;
    return out;
}

/* Reads `count` records between `begin` and `size`, and where the rows of those that have one start and end.
 *
 * `keys` has room for 5 + 5 * count bytes and those of all keys, `values` for 5 + 7 * count and those of all rows; how
 * much of it is used is left in `used`. Returns how many records have a row; -1 if that is not what is there.
 */
int64_t lakebed_key_records(const uint8_t *data, int64_t begin, int64_t size, int64_t count, uint16_t schema_id,
                            uint8_t *keys, uint8_t *values, int64_t *starts, int64_t *ends, int64_t *used)
{
    uint8_t *key_out = write_number(keys, ARRAY_32, (uint32_t)count);
    uint8_t *value_out = write_number(values, ARRAY_32, (uint32_t)count);
    int64_t position = begin, rows = 0;
    for (int64_t record = 0; record < count; record++) {
        if (position + 5 > size)
            return -1;
        const uint8_t *at = data + position;
        int32_t length = (int32_t)(at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24);
        int64_t start = position + 4, end = start + length;
        uint64_t key_bytes = 0;
        for (int part = 0;; part++) {
            if (part == MOST_VARINT_BYTES || start >= size)
                return -1;
            uint8_t byte = data[start++];
            key_bytes |= (uint64_t)(byte & 0x7f) << (7 * part);
            if (byte < 0x80)
                break;
        }
        int64_t row = start + (int64_t)key_bytes;
        if (row > end || end > size)
            return -1;
        key_out = write_length(key_out, (uint32_t)key_bytes);
        memcpy(key_out, data + start, key_bytes);
        key_out += key_bytes;
        if (row == end) {
            *value_out++ = NIL;
        } else {
            size_t row_bytes = (size_t)(end - row);
            value_out = write_length(value_out, (uint32_t)row_bytes + SCHEMA_ID_BYTES);
            *value_out++ = (uint8_t)schema_id;
            *value_out++ = (uint8_t)(schema_id >> 8);
            memcpy(value_out, data + row, row_bytes);
            value_out += row_bytes;
            starts[rows] = row;
            ends[rows++] = end;
        }
        position = end;
    }
    used[0] = key_out - keys;
    used[1] = value_out - values;
    return position == size ? rows : -1;
}
