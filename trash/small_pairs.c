/* Opens, reads and compares the two files of a pair in one call, and looks at both again after one was moved. Python
   needs a dozen calls for that, and takes longer for these than the kernel takes for the work.

   It knows one answer, that everything is as planned. Whatever is not, or may not be, is for `trash/proving.py` and
   `trash/moving.py`, which look for themselves and know the reasons. Nothing here changes anything on the disk. */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Changes with every change of what is below, so that no older build is taken for it. */
const int dedupfs_small_pairs_version = 3;

/* One of the two: what it has to be, and the descriptor it is open by, -1 where it is not. Its inode and its times are
   signed, as the columns are. */
struct side {
    int64_t folder, inode, mtime_ns, young_after_ns;
    uint64_t device;
    int64_t file, ctime_ns;
};

struct pair {
    int64_t size;
    struct side goes, stays;
    /* Whether the content of what stays was read by this call: not where it lies in its room already, because it is
       the file of the call before and nobody has changed it. */
    int64_t is_read;
    struct { int64_t size, inode, mtime_ns, ctime_ns; uint64_t device; } last;
};

/* What lies before 1677 or after 2262 fits no column; the index knows no such file. */
static const int64_t FAR_SECONDS = 9223372035;

static int fits(struct timespec time)
{
    return time.tv_sec >= -FAR_SECONDS && time.tv_sec <= FAR_SECONDS;
}

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int is_planned(const struct stat *info, const struct side *side, int64_t size)
{
    return S_ISREG(info->st_mode) && (int64_t)info->st_ino == side->inode && info->st_dev == side->device
        && info->st_size == size && fits(info->st_mtim) && fits(info->st_ctim)
        && nanoseconds(info->st_mtim) == side->mtime_ns;
}

/* Nothing is waited for, no link is followed; the time of the last reading stays where we may say so. */
static int open_planned(struct side *side, const char *name, int64_t size, nlink_t most_links)
{
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat info;
    side->file = openat((int)side->folder, name, flags | O_NOATIME);
    if (side->file < 0 && errno == EPERM)
        side->file = openat((int)side->folder, name, flags);
    if (side->file < 0 || fstat((int)side->file, &info) || !is_planned(&info, side, size))
        return 0;
    side->ctime_ns = nanoseconds(info.st_ctim);
    return side->mtime_ns <= side->young_after_ns && side->ctime_ns <= side->young_after_ns
        && (!most_links || info.st_nlink <= most_links);
}

/* One byte more than there should be tells a file that grows. */
static int is_read(const struct side *side, int64_t size, char *room)
{
    return pread((int)side->file, room, (size_t)size + 1, 0) == size;
}

static int is_untouched(const struct side *side, int64_t size)
{
    struct stat info;
    return !fstat((int)side->file, &info) && is_planned(&info, side, size)
        && nanoseconds(info.st_ctim) == side->ctime_ns;
}

static int is_last(const struct pair *pair)
{
    const struct side *stays = &pair->stays;
    return pair->last.size == pair->size && pair->last.inode == stays->inode && pair->last.device == stays->device
        && pair->last.mtime_ns == stays->mtime_ns && pair->last.ctime_ns == stays->ctime_ns;
}

static int has_read_what_stays(struct pair *pair, char *room)
{
    pair->is_read = !is_last(pair);
    if (!pair->is_read)
        return 1;
    pair->last.size = -1;
    if (!is_read(&pair->stays, pair->size, room))
        return 0;
    pair->last.size = pair->size;
    pair->last.inode = pair->stays.inode;
    pair->last.device = pair->stays.device;
    pair->last.mtime_ns = pair->stays.mtime_ns;
    pair->last.ctime_ns = pair->stays.ctime_ns;
    return 1;
}

void dedupfs_close_pair(struct pair *pair)
{
    if (pair->goes.file >= 0)
        close((int)pair->goes.file);
    if (pair->stays.file >= 0)
        close((int)pair->stays.file);
    pair->goes.file = pair->stays.file = -1;
}

/* Whether both are what was planned, are two files, the one that goes with no other name, and have the same bytes at
   this moment. Then both are open, and the content of what stays lies in its room. Rooms hold more than `size` bytes. */
int dedupfs_prove_pair(struct pair *pair, const char *goes, const char *stays, char *goes_room, char *stays_room)
{
    pair->goes.file = pair->stays.file = -1;
    if (open_planned(&pair->goes, goes, pair->size, 1) && open_planned(&pair->stays, stays, pair->size, 0)
        && (pair->goes.inode != pair->stays.inode || pair->goes.device != pair->stays.device)
        && has_read_what_stays(pair, stays_room) && is_read(&pair->goes, pair->size, goes_room)
        && !memcmp(goes_room, stays_room, (size_t)pair->size) && is_untouched(&pair->stays, pair->size)
        && is_untouched(&pair->goes, pair->size))
        return 1;
    dedupfs_close_pair(pair);
    pair->last.size = -1;
    return 0;
}

/* Whether nobody has changed either of them since they were proved: whoever proves may have had to wait after it. */
int dedupfs_is_still_proved(const struct pair *pair)
{
    return is_untouched(&pair->stays, pair->size) && is_untouched(&pair->goes, pair->size);
}

/* Whether nobody has changed the file that stays since it was proved. The move of the other one changes nothing of it. */
int dedupfs_stays_untouched(const struct pair *pair)
{
    return is_untouched(&pair->stays, pair->size);
}

/* Whether the file that was proved is the one that has the name in the trash now, and the other one is still found by
   its whole path, and nobody has changed it: a move may have taken a while. Then both are closed. */
int dedupfs_has_moved(struct pair *pair, int trash, const char *trash_name, const char *stays_path)
{
    struct stat info;
    if (fstatat(trash, trash_name, &info, AT_SYMLINK_NOFOLLOW) || !is_planned(&info, &pair->goes, pair->size)
        || lstat(stays_path, &info) || !is_planned(&info, &pair->stays, pair->size) || !dedupfs_stays_untouched(pair))
        return 0;
    dedupfs_close_pair(pair);
    return 1;
}
