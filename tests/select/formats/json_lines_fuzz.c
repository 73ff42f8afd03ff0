/* Feeds random bytes to `json_lines.c`, in buffers of exact size, so that a sanitizer detects errors. */
#include "../../../src/lakebed/select/formats/json_lines.c"
#include "chance.h"

#include <stdio.h>

static const char *const pieces[] = {
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\n", "\r\n", " ", "\t", "\"a\":", "\"b\":", "\"c\"", "\"\\u0061\":",
    "true", "false", "null", "tru", "-", "0", "-0", "12", "9223372036854775808", "1.5", "1.50", "0.0001", "1e5", "1e400",
    "0.12345678901234567", "\"text\"", "\"\\n\"", "\"\\ud83d\\ude00\"", "\"\\ud800\"", "\"\\u00", "\"\xc3\xa9\"", "\"\xff\"",
    "\"\xf0\x9f\x98\x80\"", "\"\xed\xa0\x80\"", "{\"a\":1,\"b\":\"x\"}\n", "{\"a\":{\"b\":[1,2]},\"b\":null}\n",
    "{\"a\":\"a text of more than sixteen bytes\\t\",\"a\":{\"b\":\"\\u0000\\\\\"}}\n", "\"c\":{}", "\xef\xbb\xbf", "",
};

static size_t make(uint8_t *block, size_t most)
{
    size_t length = 0;
    bool plain = draw(4) != 0;
    for (uint32_t left = draw(24); left > 0; left--) {
        if (!plain && draw(8) == 0) {
            block[length++] = (uint8_t)draw(256);
        } else {
            uint32_t choices = sizeof pieces / sizeof *pieces;
            const char *piece = pieces[plain && draw(24) ? choices - 6 + draw(3) : draw(choices)];
            size_t size = strlen(piece);
            memcpy(block + length, piece, size);
            length += size;
        }
        if (length > most - 100)
            break;
    }
    for (uint32_t left = plain ? draw(2) : draw(4); left > 0 && length > 0; left--)
        block[draw((uint32_t)length)] = (uint8_t)draw(256);
    return length > 0 && draw(4) == 0 ? draw((uint32_t)length) : length;
}

int main(int argc, char **argv)
{
    enum { FIELDS = 4, MOST = 4096 };
    const struct step steps[] = {
        {NULL, 0, 0, 1, -1},
        {(const uint8_t *)"a", 1, 1, 2, 3},
        {(const uint8_t *)"b", 1, 2, -1, -1},
        {(const uint8_t *)"b", 1, 3, -1, -1},
    };
    static uint8_t made[MOST];
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    long read = 0;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (long round = 0; round < rounds; round++) {
        size_t length = make(made, MOST);
        uint8_t *block = malloc(length + 1);
        memcpy(block, made, length);
        block[length] = 0;
        size_t capacity = lakebed_json_count(block, length);
        struct cell *cells = malloc(FIELDS * capacity * sizeof *cells);
        struct cell *lines = malloc(capacity * sizeof *lines);
        uint8_t *odd = malloc(capacity);
        uint64_t totals[FIELDS];
        int64_t count = lakebed_json_scan(block, length, steps, FIELDS, cells, capacity, totals, lines, odd);
        for (int field = 0; count >= 0 && field < FIELDS; field++) {
            for (int32_t view = PRESENCE; view <= AS_BOOL; view++) {
                size_t records = (size_t)count;
                size_t size = view == AS_JSON || view == AS_TEXT   ? totals[field]
                              : view == AS_INT || view == AS_FLOAT ? records * 8
                                                                   : (records + 7) / 8;
                uint8_t *validity = malloc((records + 7) / 8);
                void *values = malloc(size);
                int32_t *offsets = malloc((records + 1) * sizeof *offsets);
                lakebed_json_column(view, block, cells + (size_t)field * capacity, records, validity, values, offsets, odd);
                free(validity);
                free(values);
                free(offsets);
            }
        }
        read += count > 0;
        free(block);
        free(cells);
        free(lines);
        free(odd);
    }
    printf("%ld\n", read);
    return 0;
}
