/* Writes the files of a unit of walking as pages of a SQLite database, so that whoever stores them need not take every
   row apart and put it together again (https://www.sqlite.org/fileformat2.html says what such a page holds).
   `libraries/unit_pages.py` has the same in Python, for where nobody could compile this. */

#include <stdint.h>
#include <string.h>

/* Changes with every change of what is below, so that no older build is taken for it. */
const int dedupfs_unit_pages_version = 1;

enum { PAGE = 32768, LEAF = 0x0d, INTERIOR = 0x05, LEAF_HEADER = 8, INTERIOR_HEADER = 12 };
/* What SQLite keeps in a leaf; of a longer row it looks for the rest on a page of its own. */
enum { MOST_PAYLOAD = PAGE - 35 };
/* Serial types of columns: a number of 8 bytes, and a blob of 32. */
enum { NUMBER = 6, DIGEST = 12 + 2 * 32, NUMBERS = 6 };
enum { ODD = -2 };

/* As `small_files.c` has them. */
struct seen {
    int64_t size, mtime_ns, ctime_ns, inode, device, links, start;
};

/* The first page of `room` is the root, left free until the end; leaves follow. `ends` has room for the last row of
   each of `most` leaves. `content` is where the cells of the last leaf begin: they grow towards its header. */
struct shelf {
    unsigned char *room;
    int64_t *ends;
    int64_t most, leaves, rows, cells, content;
};
/* Python writes it as numbers of 8 bytes each; where an address has fewer, it does without this. */
_Static_assert(sizeof(void *) == 8, "addresses of 8 bytes");

static unsigned char *put_short(unsigned char *at, unsigned value)
{
    *at++ = (unsigned char)(value >> 8);
    *at++ = (unsigned char)value;
    return at;
}

static unsigned char *put_long(unsigned char *at, uint64_t value, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        *at++ = (unsigned char)(value >> shift);
    return at;
}

static int varint_bytes(uint64_t value)
{
    int bytes = 1;
    while (value >>= 7)
        bytes++;
    return bytes;
}

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
    for (int left = varint_bytes(value) - 1; left > 0; left--)
        *at++ = (unsigned char)(value >> (7 * left)) | 0x80;
    *at++ = (unsigned char)value & 0x7f;
    return at;
}

static unsigned char *leaf_of(const struct shelf *shelf)
{
    return shelf->room + shelf->leaves * PAGE;
}

static void begin_leaf(struct shelf *shelf)
{
    shelf->leaves++;
    shelf->cells = 0;
    shelf->content = PAGE;
    memset(leaf_of(shelf), 0, PAGE);
    leaf_of(shelf)[0] = LEAF;
}

/* A place for a cell of so many bytes in the last leaf, or in a new one; null where there is no room for one. */
static unsigned char *place(struct shelf *shelf, int64_t bytes)
{
    unsigned char *leaf;
    if (!shelf->leaves || shelf->content - (LEAF_HEADER + 2 * (shelf->cells + 1)) < bytes) {
        if (shelf->leaves == shelf->most || bytes > PAGE - LEAF_HEADER - 2)
            return NULL;
        begin_leaf(shelf);
    }
    leaf = leaf_of(shelf);
    shelf->content -= bytes;
    put_short(leaf + LEAF_HEADER + 2 * shelf->cells, (unsigned)shelf->content);
    shelf->cells++;
    put_short(leaf + 3, (unsigned)shelf->cells);
    put_short(leaf + 5, (unsigned)shelf->content);
    shelf->ends[shelf->leaves - 1] = ++shelf->rows;
    return leaf + shelf->content;
}

/* A row is its path, the six numbers, and the digest or nothing. */
static int put_row(struct shelf *shelf, const char *prefix, size_t prefix_bytes, const char *name, size_t name_bytes,
                   const struct seen *seen, const char *digest)
{
    const int64_t numbers[NUMBERS] = {seen->size,  seen->mtime_ns, seen->ctime_ns,
                                      seen->inode, seen->device,   seen->links};
    uint64_t path_type = 13 + 2 * (uint64_t)(prefix_bytes + name_bytes);
    int header = 1 + varint_bytes(path_type) + NUMBERS + 1;
    int64_t payload = header + (int64_t)(prefix_bytes + name_bytes) + 8 * NUMBERS + (digest ? 32 : 0);
    int64_t bytes = varint_bytes((uint64_t)payload) + varint_bytes((uint64_t)shelf->rows + 1) + payload;
    unsigned char *at = payload > MOST_PAYLOAD ? NULL : place(shelf, bytes);
    if (!at)
        return 0;
    at = put_varint(at, (uint64_t)payload);
    at = put_varint(at, (uint64_t)shelf->rows);
    *at++ = (unsigned char)header;
    at = put_varint(at, path_type);
    memset(at, NUMBER, NUMBERS);
    at += NUMBERS;
    *at++ = digest ? DIGEST : 0;
    memcpy(at, prefix, prefix_bytes);
    memcpy(at + prefix_bytes, name, name_bytes);
    at += prefix_bytes + name_bytes;
    for (int number = 0; number < NUMBERS; number++)
        at = put_long(at, (uint64_t)numbers[number], 8);
    if (digest)
        memcpy(at, digest, 32);
    return 1;
}

/* Rows of `count` files, of those that were found and have at least `least` bytes; `names` end with a zero byte each,
   `digests` are those of the files that were read. Returns 0 where there was no room. */
int dedupfs_put_rows(struct shelf *shelf, const char *prefix, const char *names, const struct seen *found, long count,
                     int64_t least, const char *digests)
{
    size_t prefix_bytes = strlen(prefix);
    for (long number = 0; number < count; number++, found++) {
        size_t name_bytes = strlen(names);
        const char *digest = found->start >= 0 ? digests : NULL;
        if (found->start != ODD && found->size >= least
            && !put_row(shelf, prefix, prefix_bytes, names, name_bytes, found, digest))
            return 0;
        if (digest)
            digests += 32;
        names += name_bytes + 1;
    }
    return 1;
}

/* Makes the root: the only leaf itself, or a page that leads to all of them. Returns how many pages there are; the shelf
   is as it was before the first row. */
long dedupfs_finish_pages(struct shelf *shelf)
{
    int64_t leaves = shelf->leaves;
    unsigned char *root = shelf->room, *content = root + PAGE;
    shelf->leaves = shelf->rows = shelf->cells = shelf->content = 0;
    if (leaves <= 1) {
        memcpy(root, root + PAGE, leaves ? PAGE : 0);
        return leaves;
    }
    memset(root, 0, PAGE);
    for (int64_t leaf = 0; leaf < leaves - 1; leaf++) {
        content -= 4 + varint_bytes((uint64_t)shelf->ends[leaf]);
        put_varint(put_long(content, (uint64_t)leaf + 3, 4), (uint64_t)shelf->ends[leaf]);
        put_short(root + INTERIOR_HEADER + 2 * leaf, (unsigned)(content - root));
    }
    root[0] = INTERIOR;
    put_short(root + 3, (unsigned)(leaves - 1));
    put_short(root + 5, (unsigned)(content - root));
    put_long(root + 8, (uint64_t)leaves + 2, 4);
    return leaves + 1;
}
