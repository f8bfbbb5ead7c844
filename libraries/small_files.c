/* Looks at the files of one folder and reads the small ones, many in one call. Python needs up to five calls for each of
   them, and takes as long for these as the kernel takes for the work. `libraries/small_files.py` has the same in Python,
   for where nobody could compile this. */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Changes with every change of what is below, so that no older build is taken for it. */
const int dedupfs_small_files_version = 4;

/* As the columns have them: signed. `start` is where the content begins in the room; NOTHING where it was not read, or
   changed meanwhile; ODD where there is no file that could be opened or looked at: nothing else is said then, and its
   size is 0. */
struct seen {
    int64_t size, mtime_ns, ctime_ns, inode, device, links, start;
};

enum { NOTHING = -1, ODD = -2 };

/* What lies before 1677 or after 2262 fits no column: it is as odd as what can't be opened. */
static const int64_t FAR_SECONDS = 9223372035;

static int fits(struct timespec time)
{
    return time.tv_sec >= -FAR_SECONDS && time.tv_sec <= FAR_SECONDS;
}

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int is_told(const struct stat *info, struct seen *seen)
{
    if (!S_ISREG(info->st_mode) || !fits(info->st_mtim) || !fits(info->st_ctim))
        return 0;
    seen->size = info->st_size;
    seen->mtime_ns = nanoseconds(info->st_mtim);
    seen->ctime_ns = nanoseconds(info->st_ctim);
    seen->inode = (int64_t)info->st_ino;
    seen->device = (int64_t)info->st_dev;
    seen->links = (int64_t)info->st_nlink;
    return 1;
}

static int look(int file, struct seen *seen)
{
    struct stat info;
    return !fstat(file, &info) && is_told(&info, seen);
}

/* By its name: nothing is opened. */
static int look_up(int folder, const char *name, struct seen *seen)
{
    struct stat info;
    return !fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) && is_told(&info, seen);
}

/* The whole file, or nothing of it: one byte more than there should be tells a file that grows. */
static int is_read(int file, const struct seen *before, char *room)
{
    struct seen after;
    return read(file, room, (size_t)before->size + 1) == before->size && look(file, &after)
        && after.mtime_ns == before->mtime_ns && after.ctime_ns == before->ctime_ns;
}

/* `names` are `count` names in `folder`, with a zero byte behind each. Files of `least` to `most` bytes are read into
   `room`, one behind the other; with a `most` below 0 none is opened at all. Returns for how many names there was room;
   it has to hold at least one. */
long dedupfs_read_small_files(int folder, const char *names, long count, int64_t least, int64_t most,
                              struct seen *found, char *room, int64_t room_bytes)
{
    int64_t used = 0;
    long done = 0;
    for (; done < count && room_bytes - used > most; done++, names += strlen(names) + 1) {
        struct seen *seen = found + done;
        int file;
        seen->size = 0;
        if (most < 0) {
            seen->start = look_up(folder, names, seen) ? NOTHING : ODD;
            continue;
        }
        seen->start = ODD;
        file = openat(folder, names, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0)
            continue;
        if (look(file, seen)) {
            seen->start = NOTHING;
            if (seen->size >= least && seen->size <= most && is_read(file, seen, room + used)) {
                seen->start = used;
                used += seen->size;
            }
        }
        close(file);
    }
    return done;
}
