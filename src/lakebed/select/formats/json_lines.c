/* Finds requested fields in each line of JSON, and builds Arrow columns from them; see json_scanner.py.
 *
 * It scans a block once and skips other fields. It only accepts strictly valid JSON with one interpretation: a value
 * that must be rewritten marks its record as odd, for the fallback reader, and a block that may be invalid is rejected
 * as a whole.
 */
#define _GNU_SOURCE
#include <float.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LEVELS 64
#define MOST_NUMBER_BYTES 200 /* with an exponent of two digits, far within the range */

enum kind { MISSING, NOTHING, FALSE_, TRUE_, INT, FLOAT, BIG, TEXT, ESCAPED, OBJECT, LIST, RECORD };
enum view { PRESENCE, AS_JSON, AS_TEXT, AS_INT, AS_FLOAT, AS_BOOL };

/* The value at a path in a record, and its position in the block. */
struct cell {
    uint32_t start;
    uint32_t length;
    uint32_t kind;
};

/* A step of the requested paths. The first one is the record. */
struct step {
    const uint8_t *name;
    uint32_t length;
    int32_t field; /* the field whose path ends here, or -1 */
    int32_t first; /* the first child step, or -1 */
    int32_t next;  /* the next sibling, or -1 */
};

struct scan {
    const uint8_t *block;
    const uint8_t *end; /* a zero byte, at which every search stops */
    const struct step *steps;
    struct cell *cells; /* grouped by field */
    size_t capacity;
    size_t record;
    bool high; /* whether the record may contain bytes beyond ASCII */
    bool odd;
};

typedef uint8_t sixteen __attribute__((vector_size(16)));
typedef uint64_t two __attribute__((vector_size(16)));

static bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

static const uint8_t *past_space(const uint8_t *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

static int hex_digit(uint8_t byte)
{
    if (is_digit(byte))
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The four hexadecimal digits of a \u, or -1. Reading stops at the first other byte. */
static int32_t code_unit(const uint8_t *at)
{
    int32_t code = 0;
    for (int number = 0; number < 4; number++) {
        int digit = hex_digit(at[number]);
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

/* The position after the escape at `at`, with its character; NULL if it is invalid. */
static const uint8_t *escape(const uint8_t *at, uint32_t *character)
{
    static const char short_ones[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    if (at[1] != 'u') {
        for (const char *pair = short_ones; *pair; pair += 2) {
            if ((uint8_t)*pair == at[1]) {
                *character = (uint8_t)pair[1];
                return at + 2;
            }
        }
        return NULL;
    }
    int32_t code = code_unit(at + 2);
    if (code < 0 || (code >= 0xDC00 && code < 0xE000))
        return NULL;
    at += 6;
    if (code >= 0xD800 && code < 0xDC00) {
        if (at[0] != '\\' || at[1] != 'u')
            return NULL;
        int32_t low = code_unit(at + 2);
        if (low < 0xDC00 || low >= 0xE000)
            return NULL;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
    }
    *character = (uint32_t)code;
    return at;
}

/* The closing quote of the string that begins here; NULL if there is none. */
static const uint8_t *text_end(struct scan *scan, const uint8_t *at, bool *escaped)
{
    *escaped = false;
    for (;;) {
        while (scan->end - at >= 16) {
            sixteen bytes;
            memcpy(&bytes, at, 16);
            two stops = (two)((bytes == '"') | (bytes == '\\') | (bytes < 0x20));
            two highs = (two)bytes;
            scan->high |= ((highs[0] | highs[1]) & 0x8080808080808080u) != 0;
            if ((stops[0] | stops[1]) == 0) {
                at += 16;
                continue;
            }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            at += stops[0] ? __builtin_ctzll(stops[0]) >> 3 : 8 + (__builtin_ctzll(stops[1]) >> 3);
#endif
            break;
        }
        while (*at != '"' && *at != '\\' && *at >= 0x20)
            scan->high |= *at++ >= 0x80;
        if (*at == '"')
            return at;
        uint32_t character;
        if (*at != '\\' || (at = escape(at, &character)) == NULL)
            return NULL;
        *escaped = true;
    }
}

static const uint8_t *past_digits(const uint8_t *at)
{
    while (is_digit(*at))
        at++;
    return at;
}

static const uint8_t *number(const uint8_t *at, enum kind *kind)
{
    const uint8_t *start = at;
    bool negative = *at == '-';
    at += negative;
    const uint8_t *digits = at;
    at = *at == '0' ? at + 1 : past_digits(at);
    size_t count = (size_t)(at - digits);
    if (count == 0)
        return NULL;
    if (*at != '.' && (*at | 0x20) != 'e') {
        const char *most = negative ? "9223372036854775808" : "9223372036854775807";
        bool is_far = count > 19 || (count == 19 && memcmp(digits, most, 19) > 0);
        /* Negative zero is written without a sign, so it is not copied. */
        *kind = is_far || (negative && *digits == '0') ? BIG : INT;
        return count > MOST_NUMBER_BYTES ? NULL : at;
    }
    *kind = FLOAT;
    if (*at == '.') {
        const uint8_t *fraction = ++at;
        if ((at = past_digits(at)) == fraction)
            return NULL;
    }
    if ((*at | 0x20) == 'e') {
        at++;
        at += *at == '+' || *at == '-';
        const uint8_t *exponent = at;
        at = past_digits(at);
        if (at == exponent || at - exponent > 2)
            return NULL;
    }
    return at - start > MOST_NUMBER_BYTES ? NULL : at;
}

static void forget(struct scan *scan, int32_t step)
{
    for (int32_t inner = scan->steps[step].first; inner >= 0; inner = scan->steps[inner].next) {
        int32_t field = scan->steps[inner].field;
        if (field >= 0)
            scan->cells[(size_t)field * scan->capacity + scan->record] = (struct cell){0, 0, MISSING};
        forget(scan, inner);
    }
}

static int32_t step_to(const struct scan *scan, int32_t from, const uint8_t *name, size_t length)
{
    int32_t step = scan->steps[from].first;
    while (step >= 0 && (scan->steps[step].length != length || memcmp(scan->steps[step].name, name, length) != 0))
        step = scan->steps[step].next;
    return step;
}

static const uint8_t *value(struct scan *scan, const uint8_t *at, int32_t step, int levels);

static const uint8_t *object(struct scan *scan, const uint8_t *at, int32_t step, int levels)
{
    bool is_asked = step >= 0 && scan->steps[step].first >= 0;
    at = past_space(at + 1);
    if (*at == '}')
        return at + 1;
    for (;;) {
        if (*at != '"')
            return NULL;
        const uint8_t *name = at + 1;
        bool escaped;
        at = text_end(scan, name, &escaped);
        if (at == NULL)
            return NULL;
        int32_t inner = -1;
        if (is_asked) {
            scan->odd |= escaped;
            inner = step_to(scan, step, name, (size_t)(at - name));
            /* Of repeated names, the last one counts. */
            if (inner >= 0)
                forget(scan, inner);
        }
        at = past_space(at + 1);
        if (*at != ':')
            return NULL;
        at = value(scan, past_space(at + 1), inner, levels);
        if (at == NULL)
            return NULL;
        at = past_space(at);
        if (*at == '}')
            return at + 1;
        if (*at != ',')
            return NULL;
        at = past_space(at + 1);
    }
}

static const uint8_t *list(struct scan *scan, const uint8_t *at, int levels)
{
    at = past_space(at + 1);
    if (*at == ']')
        return at + 1;
    for (;;) {
        at = value(scan, at, -1, levels);
        if (at == NULL)
            return NULL;
        at = past_space(at);
        if (*at == ']')
            return at + 1;
        if (*at != ',')
            return NULL;
        at = past_space(at + 1);
    }
}

static const uint8_t *word(const uint8_t *at, const char *expected)
{
    for (; *expected; expected++)
        if (*at++ != (uint8_t)*expected)
            return NULL;
    return at;
}

/* The position after the value at `at`, recorded if it is requested; NULL if it is invalid. */
static const uint8_t *value(struct scan *scan, const uint8_t *at, int32_t step, int levels)
{
    const uint8_t *start = at;
    enum kind kind;
    bool escaped;
    if (levels == 0)
        return NULL;
    switch (*at) {
    case '"':
        at = text_end(scan, at + 1, &escaped);
        at = at == NULL ? NULL : at + 1;
        kind = escaped ? ESCAPED : TEXT;
        break;
    case '{':
        at = object(scan, at, step, levels - 1);
        kind = OBJECT;
        break;
    case '[':
        at = list(scan, at, levels - 1);
        kind = LIST;
        break;
    case 't':
        at = word(at, "true");
        kind = TRUE_;
        break;
    case 'f':
        at = word(at, "false");
        kind = FALSE_;
        break;
    case 'n':
        at = word(at, "null");
        kind = NOTHING;
        break;
    default:
        at = number(at, &kind);
    }
    if (at != NULL && step >= 0 && scan->steps[step].field >= 0) {
        struct cell *cell = &scan->cells[(size_t)scan->steps[step].field * scan->capacity + scan->record];
        cell->start = (uint32_t)(start - scan->block);
        cell->length = (uint32_t)(at - start);
        cell->kind = step == 0 ? RECORD : kind;
    }
    return at;
}

static bool is_utf8(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        uint8_t first = *at++;
        if (first < 0x80)
            continue;
        int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || end - at < more)
            return false;
        /* Overlong forms, surrogates and code points beyond the last one show in the second byte. */
        uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (*at < least || *at > most)
            return false;
        for (at++; --more > 0; at++)
            if ((*at & 0xC0) != 0x80)
                return false;
    }
    return true;
}

/* An upper bound for the number of lines. */
size_t lakebed_json_count(const uint8_t *block, size_t length)
{
    size_t count = 1;
    size_t at = 0;
    while (length - at >= 16) {
        /* A lane counts to 255. */
        size_t most = (length - at) / 16 < 255 ? (length - at) / 16 : 255;
        sixteen found = {0};
        for (size_t number = 0; number < most; number++, at += 16) {
            sixteen bytes;
            memcpy(&bytes, block + at, 16);
            found -= (sixteen)(bytes == '\n');
        }
        for (int lane = 0; lane < 16; lane++)
            count += found[lane];
    }
    for (; at < length; at++)
        count += block[at] == '\n';
    return count;
}

/* Scans a block: returns the number of records and fills their cells, the total bytes of each field, and 1 in `odd` for
 * records that need the fallback.
 *
 * -1 if the block must be read by the fallback. It must be followed by a zero byte, with at most `capacity` lines.
 */
int64_t lakebed_json_scan(const uint8_t *block, size_t length, const struct step *steps, size_t fields,
                          struct cell *cells, size_t capacity, uint64_t *totals, struct cell *lines, uint8_t *odd)
{
    struct scan scan = {.block = block, .end = block + length, .steps = steps, .cells = cells, .capacity = capacity};
    const uint8_t *at = block;
    if (length > INT32_MAX)
        return -1;
    memset(totals, 0, fields * sizeof *totals);
    for (;;) {
        at = past_space(at);
        if (at == scan.end)
            return (int64_t)scan.record;
        if (*at == '\n') {
            at++;
            continue;
        }
        if (*at != '{' || scan.record == capacity)
            return -1;
        for (size_t field = 0; field < fields; field++)
            cells[field * capacity + scan.record] = (struct cell){0, 0, MISSING};
        scan.high = scan.odd = false;
        const uint8_t *start = at;
        at = value(&scan, at, 0, MOST_LEVELS);
        if (at == NULL || (scan.high && !is_utf8(start, at)))
            return -1;
        lines[scan.record] = (struct cell){(uint32_t)(start - block), (uint32_t)(at - start), RECORD};
        odd[scan.record] = scan.odd;
        for (size_t field = 0; field < fields; field++)
            totals[field] += cells[field * capacity + scan.record].length;
        at = past_space(at);
        if (at != scan.end && *at != '\n')
            return -1;
        scan.record++;
    }
}

static uint8_t *put_utf8(uint8_t *out, uint32_t character)
{
    if (character < 0x80) {
        *out++ = (uint8_t)character;
    } else if (character < 0x800) {
        *out++ = (uint8_t)(0xC0 | character >> 6);
        *out++ = (uint8_t)(0x80 | (character & 0x3F));
    } else if (character < 0x10000) {
        *out++ = (uint8_t)(0xE0 | character >> 12);
        *out++ = (uint8_t)(0x80 | (character >> 6 & 0x3F));
        *out++ = (uint8_t)(0x80 | (character & 0x3F));
    } else {
        *out++ = (uint8_t)(0xF0 | character >> 18);
        *out++ = (uint8_t)(0x80 | (character >> 12 & 0x3F));
        *out++ = (uint8_t)(0x80 | (character >> 6 & 0x3F));
        *out++ = (uint8_t)(0x80 | (character & 0x3F));
    }
    return out;
}

/* Writes a character in JSON form. Only escaped characters are written, so the text does not grow. */
static uint8_t *put_escaped(uint8_t *out, uint32_t character)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *pair = named; *pair; pair += 2) {
        if ((uint8_t)*pair == character) {
            *out++ = '\\';
            *out++ = (uint8_t)pair[1];
            return out;
        }
    }
    if (character >= 0x20)
        return put_utf8(out, character);
    memcpy(out, "\\u00", 4);
    out[4] = "01"[character >> 4];
    out[5] = (uint8_t)"0123456789abcdef"[character & 15];
    return out + 6;
}

/* Writes a string with escapes: unescaped and without quotes, or as JSON with the required escapes only. */
static uint8_t *put_text(uint8_t *out, const uint8_t *at, const uint8_t *end, bool quoted)
{
    if (quoted)
        *out++ = '"';
    at++;
    end--;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        uint32_t character = 0;
        at = escape(at, &character);
        out = quoted ? put_escaped(out, character) : put_utf8(out, character);
    }
    if (quoted)
        *out++ = '"';
    return out;
}

/* Whether a fraction is in its shortest form, as other writers produce it. */
static bool is_usual(const uint8_t *at, const uint8_t *end)
{
    at += *at == '-';
    const uint8_t *point = memchr(at, '.', (size_t)(end - at));
    if (point == NULL || end - at > DBL_DIG + 1 || !is_digit(end[-1]))
        return false;
    for (const uint8_t *digit = point + 1; digit < end; digit++)
        if (!is_digit(*digit))
            return false;
    if (end[-1] == '0')
        return end - point == 2; /* such as 1.0, where the zero marks a fraction */
    /* Small numbers are written with an exponent. */
    return *at != '0' || end - point < 5 || memcmp(point + 1, "000", 3) != 0;
}

static uint8_t *put_value(uint8_t *out, const uint8_t *at, const struct cell *cell, bool quoted, bool *odd)
{
    const uint8_t *end = at + cell->length;
    switch (cell->kind) {
    case ESCAPED:
        return put_text(out, at, end, quoted);
    case TEXT:
        if (!quoted)
            at++, end--;
        break;
    case FLOAT:
        *odd |= !is_usual(at, end);
        break;
    case BIG:
        *odd = true;
        break;
    case OBJECT:
    case LIST:
        /* Objects and lists with content may contain spaces and repeated names. */
        *odd |= cell->length > 2;
        break;
    default:
        break;
    }
    if (*odd)
        return out;
    memcpy(out, at, (size_t)(end - at));
    return out + (end - at);
}

static int64_t whole_number(const uint8_t *at, const uint8_t *end)
{
    bool negative = *at == '-';
    uint64_t number = 0;
    for (at += negative; at < end; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    return (int64_t)(negative ? 0 - number : number);
}

static double fraction(const uint8_t *at, const uint8_t *end, locale_t plain)
{
#if FLT_EVAL_METHOD == 0
    /* Both are exact, so the quotient is rounded once. */
    static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    bool negative = *at == '-';
    const uint8_t *digit = at + negative;
    if (end - digit <= DBL_DIG + 1) {
        uint64_t digits = 0;
        int behind = -1;
        for (; digit < end && *digit != 'e' && *digit != 'E'; digit++) {
            behind += behind >= 0;
            if (*digit == '.')
                behind = 0;
            else
                digits = digits * 10 + (uint64_t)(*digit - '0');
        }
        if (digit == end) {
            double found = (double)digits / tens[behind < 0 ? 0 : behind];
            return negative ? -found : found;
        }
    }
#endif
    /* strtod stops at the end of the number, which is followed by another character. */
    return strtod_l((const char *)at, NULL, plain);
}

static void set_bit(uint8_t *bits, size_t number) { bits[number >> 3] |= (uint8_t)(1u << (number & 7)); }

/* Builds a column from the cells of a field; returns its number of nulls. Only text has `offsets`.
 *
 * Odd records are null.
 */
int64_t lakebed_json_column(int32_t view, const uint8_t *block, const struct cell *cells, size_t count,
                            uint8_t *validity, void *values, int32_t *offsets, uint8_t *odd)
{
    int64_t nulls = 0;
    uint8_t *out = values;
    locale_t plain = view == AS_FLOAT ? newlocale(LC_ALL_MASK, "C", (locale_t)0) : (locale_t)0;
    if (view == AS_FLOAT && plain == (locale_t)0)
        return -1;
    memset(validity, 0, (count + 7) / 8);
    if (view == AS_BOOL || view == PRESENCE)
        memset(values, 0, (count + 7) / 8);
    for (size_t number = 0; number < count; number++) {
        const struct cell *cell = &cells[number];
        const uint8_t *at = block + cell->start;
        const uint8_t *end = at + cell->length;
        bool is_odd = false;
        bool is_null = cell->kind <= NOTHING;
        switch ((enum view)view) {
        case PRESENCE:
            is_null = false;
            if (cell->kind != MISSING)
                set_bit(values, number);
            break;
        case AS_JSON:
        case AS_TEXT:
            offsets[number] = (int32_t)(out - (uint8_t *)values);
            if (!is_null)
                out = put_value(out, at, cell, view == AS_JSON, &is_odd);
            break;
        case AS_INT:
            ((int64_t *)values)[number] = cell->kind == INT ? whole_number(at, end) : 0;
            is_odd = cell->kind >= FLOAT && cell->kind <= ESCAPED;
            is_null |= cell->kind != INT;
            break;
        case AS_FLOAT:
            ((double *)values)[number] = cell->kind == INT     ? (double)whole_number(at, end)
                                         : cell->kind == FLOAT ? fraction(at, end, plain)
                                                               : 0;
            is_odd = cell->kind >= BIG && cell->kind <= ESCAPED;
            is_null |= cell->kind != INT && cell->kind != FLOAT;
            break;
        case AS_BOOL:
            if (cell->kind == TRUE_)
                set_bit(values, number);
            is_odd = cell->kind >= BIG && cell->kind <= ESCAPED;
            is_null |= cell->kind != TRUE_ && cell->kind != FALSE_;
            break;
        }
        odd[number] |= is_odd;
        if (is_null || is_odd)
            nulls++;
        else
            set_bit(validity, number);
    }
    if (view == AS_JSON || view == AS_TEXT)
        offsets[count] = (int32_t)(out - (uint8_t *)values);
    if (plain != (locale_t)0)
        freelocale(plain);
    return nulls;
}
