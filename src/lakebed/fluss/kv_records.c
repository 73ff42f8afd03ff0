/* Splits KV record batches and joins value record batches; see kv_records.py.
 *
 * Exchanges lists of bytes with Python as MessagePack, which is faster for many short values than a loop in Python.
 * For malformed input it returns -1, and the Python implementation reports the error.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MOST_VARINT_BYTES 5
#define SCHEMA_ID_BYTES 2

enum { FEW = 0x90, NIL = 0xc0, BIN_8 = 0xc4, BIN_16 = 0xc5, BIN_32 = 0xc6, ARRAY_16 = 0xdc, ARRAY_32 = 0xdd };

static uint8_t *write_number(uint8_t *out, uint8_t mark, uint32_t number)
{
    *out++ = mark;
    for (int shift = 24; shift >= 0; shift -= 8)
        *out++ = (uint8_t)(number >> shift);
    return out;
}

/* Writes the MessagePack header of `length` bytes. */
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

/* Reads `count` records between `begin` and `size`, and the positions of rows.
 *
 * `keys` has 5 + 5 * count bytes plus those of all keys, `values` 5 + 7 * count plus those of all rows; `used` returns
 * how much of each is used. Returns the number of records with a row, or -1 if the input is malformed.
 */
int64_t lakebed_kv_records(const uint8_t *data, int64_t begin, int64_t size, int64_t count, uint16_t schema_id,
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

/* Reads a big-endian number. */
static int64_t read_number(const uint8_t *at, int bytes)
{
    int64_t number = 0;
    while (bytes-- > 0)
        number = number << 8 | *at++;
    return number;
}

/* Writes the values of a MessagePack array, each prefixed with its length in four bytes.
 *
 * `out` has `size` bytes plus 2 for each value. Returns how many are used, or -1 if the input is malformed.
 */
int64_t lakebed_value_batch(const uint8_t *packed, int64_t size, uint8_t *out)
{
    const uint8_t *at = packed, *end = packed + size;
    uint8_t *begin = out;
    if (size < 1)
        return -1;
    int array = *at++, head_bytes = array == ARRAY_32 ? 4 : array == ARRAY_16 ? 2 : 0;
    if (end - at < head_bytes || (head_bytes == 0 && (array & 0xf0) != FEW))
        return -1;
    int64_t count = head_bytes ? read_number(at, head_bytes) : array & 0x0f;
    at += head_bytes;
    for (int64_t value = 0; value < count; value++) {
        if (at == end || *at < BIN_8 || *at > BIN_32)
            return -1;
        int length_bytes = 1 << (*at++ - BIN_8);
        if (end - at < length_bytes)
            return -1;
        int64_t length = read_number(at, length_bytes);
        at += length_bytes;
        if (end - at < length)
            return -1;
        for (int shift = 0; shift < 32; shift += 8)
            *out++ = (uint8_t)(length >> shift);
        memcpy(out, at, (size_t)length);
        out += length;
        at += length;
    }
    return at == end ? out - begin : -1;
}
