/* MD5 (RFC 1321) of several bodies at once: one vector lane for each.
 *
 * Each step of MD5 depends on the previous one, so one body leaves most of a core idle. Up to eight concurrent bodies
 * use it: four cost little more than one. No intrinsics: compilers turn vectors of this kind into whatever the machine
 * has.
 *
 * One thread hashes for all callers. It processes all bodies with pending bytes one slice at a time: bodies join and
 * leave between slices. A caller need not run while its bytes are hashed, so lanes fill up even if all cores are busy.
 *
 * Bytes passed to `begin` are read until `wait` returns for them. More may be passed meanwhile.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 64
#define SLICE_BLOCKS 1024 /* 64 KiB: a joining body waits for a tenth of a millisecond */
#define MOST_LANES 8

struct piece {
    const uint8_t *bytes;
    size_t count;
};

/* The pieces of one `begin` call. */
struct batch {
    struct batch *next;
    size_t count;
    struct piece pieces[];
};

/* One running hash. */
struct body {
    struct lanes *lanes;
    uint32_t state[4];
    uint64_t total;
    uint8_t buffered[2 * BLOCK_BYTES]; /* an incomplete block; padding needs a second block */
    size_t buffered_count;
    /* The run of whole blocks that is being hashed, in a piece or in `buffered`, and the rest behind it. */
    const uint8_t *run;
    size_t run_blocks;
    struct piece rest;
    size_t next_piece;
    /* Guarded by the lanes' `mutex`. */
    struct batch *first_batch, **last_batch;
    uint64_t begun, done; /* number of batches */
    pthread_cond_t is_done;
    struct body *next;
};

static inline uint32_t word(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return value;
}

/* The four auxiliary functions, added to `a`. `b`, the result of the previous step, is used last. G's two halves have
 * no bit in common, so they can be added one after the other. */
#define ADD_F(a, b, c, d) a += (d) ^ ((b) & ((c) ^ (d)))
#define ADD_G(a, b, c, d) a += (c) & ~(d); a += (b) & (d)
#define ADD_H(a, b, c, d) a += (b) ^ ((c) ^ (d))
#define ADD_I(a, b, c, d) a += (c) ^ ((b) | ~(d))

#define STEP(add, a, b, c, d, k, turn, sine) \
    a += m[k] + sine; \
    add(a, b, c, d); \
    a = ((a << turn) | (a >> (32 - turn))) + b;

#define FOUR(add, s0, s1, s2, s3, k0, k1, k2, k3, t0, t1, t2, t3) \
    STEP(add, a, b, c, d, k0, s0, t0) STEP(add, d, a, b, c, k1, s1, t1) \
    STEP(add, c, d, a, b, k2, s2, t2) STEP(add, b, c, d, a, k3, s3, t3)

#define FOUR_ROUNDS \
    FOUR(ADD_F, 7, 12, 17, 22, 0, 1, 2, 3, 0xd76aa478u, 0xe8c7b756u, 0x242070dbu, 0xc1bdceeeu) \
    FOUR(ADD_F, 7, 12, 17, 22, 4, 5, 6, 7, 0xf57c0fafu, 0x4787c62au, 0xa8304613u, 0xfd469501u) \
    FOUR(ADD_F, 7, 12, 17, 22, 8, 9, 10, 11, 0x698098d8u, 0x8b44f7afu, 0xffff5bb1u, 0x895cd7beu) \
    FOUR(ADD_F, 7, 12, 17, 22, 12, 13, 14, 15, 0x6b901122u, 0xfd987193u, 0xa679438eu, 0x49b40821u) \
    FOUR(ADD_G, 5, 9, 14, 20, 1, 6, 11, 0, 0xf61e2562u, 0xc040b340u, 0x265e5a51u, 0xe9b6c7aau) \
    FOUR(ADD_G, 5, 9, 14, 20, 5, 10, 15, 4, 0xd62f105du, 0x02441453u, 0xd8a1e681u, 0xe7d3fbc8u) \
    FOUR(ADD_G, 5, 9, 14, 20, 9, 14, 3, 8, 0x21e1cde6u, 0xc33707d6u, 0xf4d50d87u, 0x455a14edu) \
    FOUR(ADD_G, 5, 9, 14, 20, 13, 2, 7, 12, 0xa9e3e905u, 0xfcefa3f8u, 0x676f02d9u, 0x8d2a4c8au) \
    FOUR(ADD_H, 4, 11, 16, 23, 5, 8, 11, 14, 0xfffa3942u, 0x8771f681u, 0x6d9d6122u, 0xfde5380cu) \
    FOUR(ADD_H, 4, 11, 16, 23, 1, 4, 7, 10, 0xa4beea44u, 0x4bdecfa9u, 0xf6bb4b60u, 0xbebfbc70u) \
    FOUR(ADD_H, 4, 11, 16, 23, 13, 0, 3, 6, 0x289b7ec6u, 0xeaa127fau, 0xd4ef3085u, 0x04881d05u) \
    FOUR(ADD_H, 4, 11, 16, 23, 9, 12, 15, 2, 0xd9d4d039u, 0xe6db99e5u, 0x1fa27cf8u, 0xc4ac5665u) \
    FOUR(ADD_I, 6, 10, 15, 21, 0, 7, 14, 5, 0xf4292244u, 0x432aff97u, 0xab9423a7u, 0xfc93a039u) \
    FOUR(ADD_I, 6, 10, 15, 21, 12, 3, 10, 1, 0x655b59c3u, 0x8f0ccc92u, 0xffeff47du, 0x85845dd1u) \
    FOUR(ADD_I, 6, 10, 15, 21, 8, 15, 6, 13, 0x6fa87e4fu, 0xfe2ce6e0u, 0xa3014314u, 0x4e0811a1u) \
    FOUR(ADD_I, 6, 10, 15, 21, 4, 11, 2, 9, 0xf7537e82u, 0xbd3af235u, 0x2ad7d2bbu, 0xeb86d391u)

typedef uint32_t words_1;
typedef uint32_t words_4 __attribute__((vector_size(16)));
typedef uint32_t words_8 __attribute__((vector_size(32)));

#define AT(i, k) word(from[i] + 4 * (k))
#define GATHER_1(k) AT(0, k)
#define GATHER_4(k) (words_4){AT(0, k), AT(1, k), AT(2, k), AT(3, k)}
#define GATHER_8(k) (words_8){AT(0, k), AT(1, k), AT(2, k), AT(3, k), AT(4, k), AT(5, k), AT(6, k), AT(7, k)}

/* Advances `width` lanes by `blocks` blocks each. */
#define DEFINE_ADVANCE(width) \
    static void advance_##width(struct body *const lanes[], size_t blocks) \
    { \
        uint32_t states[4][width]; \
        const uint8_t *from[width]; \
        words_##width a, b, c, d; \
        for (int i = 0; i < width; i++) { \
            for (int part = 0; part < 4; part++) \
                states[part][i] = lanes[i]->state[part]; \
            from[i] = lanes[i]->run; \
        } \
        memcpy(&a, states[0], sizeof a), memcpy(&b, states[1], sizeof b); \
        memcpy(&c, states[2], sizeof c), memcpy(&d, states[3], sizeof d); \
        while (blocks--) { \
            words_##width m[16]; \
            const words_##width a0 = a, b0 = b, c0 = c, d0 = d; \
            for (int k = 0; k < 16; k++) \
                m[k] = GATHER_##width(k); \
            FOUR_ROUNDS \
            a += a0, b += b0, c += c0, d += d0; \
            for (int i = 0; i < width; i++) \
                from[i] += BLOCK_BYTES; \
        } \
        memcpy(states[0], &a, sizeof a), memcpy(states[1], &b, sizeof b); \
        memcpy(states[2], &c, sizeof c), memcpy(states[3], &d, sizeof d); \
        for (int i = 0; i < width; i++) \
            for (int part = 0; part < 4; part++) \
                lanes[i]->state[part] = states[part][i]; \
    }

DEFINE_ADVANCE(1)
DEFINE_ADVANCE(4)
DEFINE_ADVANCE(8)

/* Advances the current runs of one to eight bodies by `blocks` blocks each. */
static void advance(struct body *const bodies[], int count, size_t blocks)
{
    struct body idle = *bodies[0]; /* fills unused lanes; its result is ignored */
    struct body *lanes[MOST_LANES];
    for (int i = 0; i < MOST_LANES; i++)
        lanes[i] = i < count ? bodies[i] : &idle;
    if (count == 1)
        advance_1(lanes, blocks);
    else if (count <= 4)
        advance_4(lanes, blocks);
    else
        advance_8(lanes, blocks);
    for (int i = 0; i < count; i++) {
        bodies[i]->run += blocks * BLOCK_BYTES;
        bodies[i]->run_blocks -= blocks;
    }
}

/* Finds the next run of whole blocks in the first batch; none if all its pieces are consumed. */
static int find_run(struct body *body, const struct batch *batch)
{
    while (body->run_blocks == 0) {
        struct piece *rest = &body->rest;
        if (rest->count == 0) {
            if (body->next_piece == batch->count)
                return 0;
            *rest = batch->pieces[body->next_piece++];
            body->total += rest->count;
        } else if (body->buffered_count > 0 || rest->count < BLOCK_BYTES) {
            size_t taken = BLOCK_BYTES - body->buffered_count;
            if (taken > rest->count)
                taken = rest->count;
            memcpy(body->buffered + body->buffered_count, rest->bytes, taken);
            body->buffered_count += taken;
            rest->bytes += taken;
            rest->count -= taken;
            if (body->buffered_count == BLOCK_BYTES) {
                body->run = body->buffered;
                body->run_blocks = 1;
                body->buffered_count = 0;
            }
        } else {
            body->run = rest->bytes;
            body->run_blocks = rest->count / BLOCK_BYTES;
            rest->bytes += body->run_blocks * BLOCK_BYTES;
            rest->count %= BLOCK_BYTES;
        }
    }
    return 1;
}

struct lanes {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the following */
    pthread_cond_t has_work;
    struct body *first, **last; /* bodies waiting for a lane */
    int is_closing;
};

/* Queues a body with pending bytes. */
static void enqueue(struct lanes *lanes, struct body *body)
{
    body->next = NULL;
    *lanes->last = body;
    lanes->last = &body->next;
    pthread_cond_signal(&lanes->has_work);
}

/* Removes a finished batch from a body; whether another one is pending. */
static int finish_batch(struct body *body)
{
    struct batch *batch = body->first_batch;
    body->first_batch = batch->next;
    if (body->first_batch == NULL)
        body->last_batch = &body->first_batch;
    free(batch);
    body->next_piece = 0;
    body->done++;
    pthread_cond_broadcast(&body->is_done);
    return body->first_batch != NULL;
}

static void *hash_for_everybody(void *argument)
{
    struct lanes *lanes = argument;
    struct body *served[MOST_LANES];
    int count = 0;
    pthread_mutex_lock(&lanes->mutex);
    for (;;) {
        while (count < MOST_LANES && lanes->first != NULL) {
            served[count++] = lanes->first;
            lanes->first = lanes->first->next;
        }
        if (lanes->first == NULL)
            lanes->last = &lanes->first;
        if (count == 0) {
            if (lanes->is_closing)
                break;
            pthread_cond_wait(&lanes->has_work, &lanes->mutex);
            continue;
        }
        const struct batch *batches[MOST_LANES];
        for (int i = 0; i < count; i++)
            batches[i] = served[i]->first_batch;
        pthread_mutex_unlock(&lanes->mutex);
        struct body *done[MOST_LANES];
        int buffered = 0, done_count = 0;
        size_t blocks = SLICE_BLOCKS;
        for (int i = 0; i < count; i++) {
            struct body *body = served[i];
            if (!find_run(body, batches[i])) {
                done[done_count++] = body;
                continue;
            }
            served[buffered++] = body;
            if (body->run_blocks < blocks)
                blocks = body->run_blocks;
        }
        count = buffered;
        if (count > 0 && done_count == 0)
            advance(served, count, blocks);
        pthread_mutex_lock(&lanes->mutex);
        for (int i = 0; i < done_count; i++)
            if (finish_batch(done[i]))
                enqueue(lanes, done[i]); /* behind the bodies that wait for a lane */
    }
    pthread_mutex_unlock(&lanes->mutex);
    return NULL;
}

/* Starts a hashing thread. NULL on failure. */
struct lanes *lakebed_md5_open(void)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (lanes == NULL)
        return NULL;
    lanes->last = &lanes->first;
    pthread_mutex_init(&lanes->mutex, NULL);
    pthread_cond_init(&lanes->has_work, NULL);
    if (pthread_create(&lanes->thread, NULL, hash_for_everybody, lanes) != 0) {
        free(lanes);
        return NULL;
    }
    return lanes;
}

/* Ends the thread after all pending work. All bodies must have been freed. */
void lakebed_md5_close(struct lanes *lanes)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->is_closing = 1;
    pthread_cond_signal(&lanes->has_work);
    pthread_mutex_unlock(&lanes->mutex);
    pthread_join(lanes->thread, NULL);
    pthread_cond_destroy(&lanes->has_work);
    pthread_mutex_destroy(&lanes->mutex);
    free(lanes);
}

/* Creates a body without bytes. NULL if out of memory. */
struct body *lakebed_md5_new(struct lanes *lanes)
{
    static const uint32_t start[4] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};
    struct body *body = calloc(1, sizeof *body);
    if (body == NULL)
        return NULL;
    body->lanes = lanes;
    body->last_batch = &body->first_batch;
    memcpy(body->state, start, sizeof start);
    pthread_cond_init(&body->is_done, NULL);
    return body;
}

/* Queues pieces for hashing; the number to wait for, or 0 if out of memory. */
uint64_t lakebed_md5_begin(struct body *body, const struct piece *pieces, size_t count)
{
    struct lanes *lanes = body->lanes;
    struct batch *batch = malloc(sizeof *batch + count * sizeof *pieces);
    if (batch == NULL)
        return 0;
    batch->next = NULL;
    batch->count = count;
    memcpy(batch->pieces, pieces, count * sizeof *pieces);
    pthread_mutex_lock(&lanes->mutex);
    if (body->first_batch == NULL)
        enqueue(lanes, body);
    *body->last_batch = batch;
    body->last_batch = &batch->next;
    uint64_t number = ++body->begun;
    pthread_mutex_unlock(&lanes->mutex);
    return number;
}

/* Returns once all batches up to a number are hashed. */
void lakebed_md5_wait(struct body *body, uint64_t number)
{
    pthread_mutex_lock(&body->lanes->mutex);
    while (body->done < number)
        pthread_cond_wait(&body->is_done, &body->lanes->mutex);
    pthread_mutex_unlock(&body->lanes->mutex);
}

/* Frees a body once its bytes are no longer read. */
void lakebed_md5_free(struct body *body)
{
    lakebed_md5_wait(body, body->begun);
    pthread_cond_destroy(&body->is_done);
    free(body);
}

/* The digest of all bytes so far, after `wait` (RFC 1321 §3.4, §3.5). More may follow. */
void lakebed_md5_digest(const struct body *body, uint8_t digest[16])
{
    struct body end = *body;
    struct body *lane = &end;
    size_t size = end.buffered_count + 9 <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    memset(end.buffered + end.buffered_count, 0, size - end.buffered_count);
    end.buffered[end.buffered_count] = 0x80;
    for (int i = 0; i < 8; i++)
        end.buffered[size - 8 + i] = (uint8_t)(end.total * 8 >> 8 * i);
    end.run = end.buffered;
    advance_1(&lane, size / BLOCK_BYTES);
    for (int i = 0; i < 16; i++)
        digest[i] = (uint8_t)(end.state[i / 4] >> 8 * (i % 4));
}
