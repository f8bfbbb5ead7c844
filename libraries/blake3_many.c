/* BLAKE3 of many small files in one call. A file of a few KiB by itself leaves most of the processor's vectors empty;
   chunks of several files fill them (https://github.com/BLAKE3-team/BLAKE3-specs says what a chunk is). Large files are
   hashed by the `blake3` package, and so is everything where nobody could compile this. */

#include <stdint.h>
#include <string.h>

/* Changes with every change of what is below, so that no older build is taken for it. */
const int dedupfs_blake3_many_version = 1;

enum { LANES = 16, HALF = 8, WORDS = 8, BLOCK = 64, CHUNK = 1024, DIGEST = 32 };
enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };
/* Files are taken together up to so many chunks, or one file of more. The largest has 64 KiB. */
enum { TOGETHER = 256, MOST_CHUNKS = TOGETHER + 64 };

/* As `small_files.c` has them. */
struct seen {
    int64_t size, mtime_ns, ctime_ns, inode, device, links, start;
};

typedef uint32_t lanes __attribute__((vector_size(4 * LANES)));
typedef uint32_t half __attribute__((vector_size(4 * HALF)));
typedef unsigned char chaining[DIGEST];

#ifdef __clang__
#define SHUFFLED(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define SHUFFLED(one, other, ...) __builtin_shuffle(one, other, (half){__VA_ARGS__})
#endif

/* What is compressed block by block to one chaining value: a chunk of a file, or a parent of two. */
struct job {
    const unsigned char *data;
    uint32_t bytes, counter, first_flag, last_flag;
    unsigned char *out;
};

struct file {
    long chunks;
    unsigned char *digest;
};

static const uint32_t IV[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
/* Which word of the block each round takes where. */
static const unsigned char ORDER[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

#define ALL(value) ((lanes){} + (uint32_t)(value))
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE lanes turned(lanes value, int by)
{
    return (value >> by) | (value << (32 - by));
}

ALWAYS_INLINE void mix(lanes *a, lanes *b, lanes *c, lanes *d, lanes first, lanes second)
{
    *a += *b + first;
    *d = turned(*d ^ *a, 16);
    *c += *d;
    *b = turned(*b ^ *c, 12);
    *a += *b + second;
    *d = turned(*d ^ *a, 8);
    *c += *d;
    *b = turned(*b ^ *c, 7);
}

/* Eight words of the blocks of half of the lanes, so that each vector has the same word of all of them. */
ALWAYS_INLINE void load_half(const unsigned char *const *blocks, int at, half *words)
{
    half row[HALF], two[HALF], four[HALF];
    for (int lane = 0; lane < HALF; lane++)
        memcpy(row + lane, blocks[lane] + at, sizeof(half));
    for (int pair = 0; pair < HALF; pair += 2) {
        two[pair] = SHUFFLED(row[pair], row[pair + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        two[pair + 1] = SHUFFLED(row[pair], row[pair + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int part = 0; part < HALF; part += 4)
        for (int odd = 0; odd < 2; odd++) {
            half low = two[part + odd], high = two[part + odd + 2];
            four[part + odd] = SHUFFLED(low, high, 0, 1, 8, 9, 4, 5, 12, 13);
            four[part + odd + 2] = SHUFFLED(low, high, 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int word = 0; word < 4; word++) {
        words[word] = SHUFFLED(four[word], four[word + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        words[word + 4] = SHUFFLED(four[word], four[word + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

ALWAYS_INLINE void load(const unsigned char *const *blocks, int at, lanes *words)
{
    half some[2][WORDS];
    load_half(blocks, at, some[0]);
    load_half(blocks + HALF, at, some[1]);
    for (int word = 0; word < WORDS; word++)
        for (int side = 0; side < 2; side++)
            memcpy((char *)(words + word) + side * sizeof(half), some[side] + word, sizeof(half));
}

ALWAYS_INLINE void compress(lanes *value, const unsigned char *const *blocks, lanes counter, lanes bytes, lanes flags)
{
    lanes block[16], state[16];
    load(blocks, 0, block);
    load(blocks, BLOCK / 2, block + 8);
    for (int word = 0; word < WORDS; word++) {
        state[word] = value[word];
        state[word + 8] = ALL(IV[word % 4]);
    }
    state[12] = counter, state[13] = ALL(0), state[14] = bytes, state[15] = flags;
#pragma GCC unroll 7
    for (int round = 0; round < 7; round++) {
        const unsigned char *at = ORDER[round];
#pragma GCC unroll 4
        for (int column = 0; column < 4; column++)
            mix(state + column, state + column + 4, state + column + 8, state + column + 12, block[at[2 * column]],
                block[at[2 * column + 1]]);
#pragma GCC unroll 4
        for (int column = 0; column < 4; column++)
            mix(state + column, state + 4 + (column + 1) % 4, state + 8 + (column + 2) % 4,
                state + 12 + (column + 3) % 4, block[at[8 + 2 * column]], block[at[9 + 2 * column]]);
    }
    for (int word = 0; word < WORDS; word++)
        value[word] = state[word] ^ state[word + 8];
}

/* Built for several processors where the loader can choose the one that is there. On any other the package is quicker. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#define IS_QUICK __builtin_cpu_supports("avx2")
#else
#define FOR_EACH_PROCESSOR
#define IS_QUICK 0
#endif

int dedupfs_blake3_many_is_quick(void)
{
    return IS_QUICK != 0;
}

/* Up to `LANES` jobs, side by side. One with fewer blocks than others keeps its value until they are done. */
FOR_EACH_PROCESSOR
static void carry_out(const struct job *jobs, int count)
{
    static const unsigned char nothing[BLOCK];
    unsigned char tails[LANES][BLOCK] = {{0}};
    const unsigned char *blocks[LANES];
    lanes value[WORDS], counter = {}, bytes = {}, flags = {}, is_on = {};
    uint32_t most = 1;
    for (int word = 0; word < WORDS; word++)
        value[word] = ALL(IV[word]);
    for (int lane = 0; lane < count; lane++) {
        counter[lane] = jobs[lane].counter;
        most = jobs[lane].bytes > most ? jobs[lane].bytes : most;
    }
    for (uint32_t at = 0; at < most; at += BLOCK) {
        lanes before[WORDS];
        int are_all_on = 1;
        for (int lane = 0; lane < LANES; lane++) {
            const struct job *job = jobs + (lane < count ? lane : 0);
            uint32_t left = job->bytes > at ? job->bytes - at : 0, here = left < BLOCK ? left : BLOCK;
            int is_here = lane < count && (left || !at);
            blocks[lane] = here == BLOCK ? job->data + at : nothing;
            if (is_here && here < BLOCK)
                blocks[lane] = memcpy(tails[lane], job->data + at, here);
            bytes[lane] = here;
            flags[lane] = (at ? 0 : job->first_flag) | (left <= BLOCK ? job->last_flag : 0);
            is_on[lane] = is_here ? UINT32_MAX : 0;
            are_all_on &= is_here;
        }
        memcpy(before, value, sizeof value);
        compress(value, blocks, counter, bytes, flags);
        for (int word = 0; !are_all_on && word < WORDS; word++)
            value[word] = (value[word] & is_on) | (before[word] & ~is_on);
    }
    for (int lane = 0; lane < count; lane++)
        for (int word = 0; word < WORDS; word++)
            for (int byte = 0; byte < 4; byte++)
                jobs[lane].out[4 * word + byte] = (unsigned char)(value[word][lane] >> (8 * byte));
}

/* Jobs that wait until there are enough of them. */
struct queue {
    struct job jobs[LANES];
    int count;
};

static void flush(struct queue *queue)
{
    if (queue->count)
        carry_out(queue->jobs, queue->count);
    queue->count = 0;
}

static void add(struct queue *queue, struct job job)
{
    queue->jobs[queue->count++] = job;
    if (queue->count == LANES)
        flush(queue);
}

/* Whole chunks and the last ones of files wait apart: those have as many blocks as their neighbours. */
static long add_chunks(struct queue *whole, struct queue *last, const unsigned char *data, int64_t size, chaining *values,
                       unsigned char *digest)
{
    long chunks = size <= CHUNK ? 1 : (long)((size + CHUNK - 1) / CHUNK);
    for (long number = 0; number < chunks; number++) {
        int64_t left = size - number * CHUNK;
        struct job job = {.data = data + number * CHUNK, .bytes = (uint32_t)(left < CHUNK ? left : CHUNK)};
        job.counter = (uint32_t)number;
        job.first_flag = CHUNK_START;
        job.last_flag = CHUNK_END | (chunks == 1 ? ROOT : 0);
        job.out = chunks == 1 ? digest : values[number];
        add(left >= CHUNK ? whole : last, job);
    }
    return chunks;
}

/* Two neighbours have one parent; who has no neighbour goes up as it is. The last parent is the digest. Returns whether
   there is another floor above. */
static int add_parents(struct queue *queue, struct file *files, long count, const chaining *from, chaining *to)
{
    int is_more = 0;
    for (struct file *file = files; file < files + count; file++) {
        long parents = file->chunks / 2;
        int is_top = file->chunks == 2, is_odd = file->chunks > 1 && file->chunks % 2;
        for (long number = 0; number < parents; number++) {
            struct job job = {.data = from[2 * number], .bytes = BLOCK, .last_flag = PARENT | (is_top ? ROOT : 0)};
            job.out = is_top ? file->digest : to[number];
            add(queue, job);
        }
        if (is_odd)
            memcpy(to[parents], from[file->chunks - 1], DIGEST);
        from += file->chunks;
        file->chunks = is_top ? 0 : parents + is_odd;
        to += file->chunks;
        is_more |= file->chunks > 1;
    }
    flush(queue);
    return is_more;
}

/* The digests of the files whose content is in `room`, one behind the other; none of them has more than 64 KiB. */
void dedupfs_blake3_many(const unsigned char *room, const struct seen *found, long count, unsigned char *digests)
{
    chaining values[2][MOST_CHUNKS];
    struct file files[TOGETHER];
    struct queue whole = {.count = 0}, last = {.count = 0};
    const struct seen *end = found + count;
    while (found < end) {
        long chunks = 0, together = 0;
        int floor = 0;
        for (; found < end && chunks < TOGETHER && together < TOGETHER; found++) {
            if (found->start < 0)
                continue;
            files[together].digest = digests;
            files[together].chunks =
                add_chunks(&whole, &last, room + found->start, found->size, values[0] + chunks, digests);
            chunks += files[together++].chunks;
            digests += DIGEST;
        }
        flush(&whole);
        flush(&last);
        while (add_parents(&whole, files, together, (const chaining *)values[floor], values[!floor]))
            floor = !floor;
    }
}
