/* A disk that forgets what it was not told to flush: one file, by FUSE, for a loop device.
 *
 *     forgetful MOUNTPOINT BYTES
 *
 * `MOUNTPOINT/disk` is the disk. What is written lies in its cache until a flush. `MOUNTPOINT/cut` is the plug: who
 * writes "PATH SEED PERMILLE" there gets a copy of what the disk has kept at that instant: all that was flushed, and of
 * each block that was not so many in a thousand, chosen by the seed, in whatever order they were written.
 * Reading it tells how many blocks were written, how many flushes came, and how many blocks the last cut forgot.
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512u
#define PAGE 4096u

static uint8_t *now, *kept; /* what was written last; what was flushed */
static uint8_t *dirty, *used; /* which blocks differ; which pages were ever written */
static size_t size, *order, pending;
static unsigned long written, flushes, forgot;

static int attributes(const char *path, struct stat *seen, struct fuse_file_info *file)
{
    (void)file;
    memset(seen, 0, sizeof *seen);
    seen->st_uid = getuid();
    seen->st_nlink = 1;
    if (!strcmp(path, "/")) {
        seen->st_mode = S_IFDIR | 0700;
        return 0;
    }
    seen->st_mode = S_IFREG | 0600;
    seen->st_size = !strcmp(path, "/disk") ? (off_t)size : 0;
    return !strcmp(path, "/disk") || !strcmp(path, "/cut") ? 0 : -ENOENT;
}

static int opened(const char *path, struct fuse_file_info *file)
{
    file->direct_io = 1; /* no cache but ours */
    return !strcmp(path, "/disk") || !strcmp(path, "/cut") ? 0 : -ENOENT;
}

static int shortened(const char *path, off_t length, struct fuse_file_info *file)
{
    (void)file;
    (void)length;
    return !strcmp(path, "/cut") ? 0 : -EPERM;
}

static int reading(const char *path, char *to, size_t length, off_t at, struct fuse_file_info *file)
{
    char said[96];
    (void)file;
    if (!strcmp(path, "/cut")) {
        size_t all = (size_t)snprintf(said, sizeof said, "%lu %lu %lu\n", written, flushes, forgot);
        if ((size_t)at >= all)
            return 0;
        length = length < all - (size_t)at ? length : all - (size_t)at;
        memcpy(to, said + at, length);
        return (int)length;
    }
    if ((size_t)at >= size)
        return 0;
    length = length < size - (size_t)at ? length : size - (size_t)at;
    memcpy(to, now + at, length);
    return (int)length;
}

static uint64_t mixed(uint64_t seed) /* splitmix64 */
{
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
    return seed ^ (seed >> 31);
}

static int cut(const char *text)
{
    char path[256];
    unsigned long seed, permille;
    if (sscanf(text, "%255s %lu %lu", path, &seed, &permille) != 3)
        return -EINVAL;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return -errno;
    int failed = ftruncate(fd, (off_t)size);
    for (size_t page = 0; page < size / PAGE && !failed; page++)
        if (used[page])
            failed = pwrite(fd, kept + page * PAGE, PAGE, (off_t)(page * PAGE)) != (ssize_t)PAGE;
    forgot = 0;
    for (size_t one = 0; one < pending && !failed; one++) {
        size_t at = order[one] * BLOCK;
        if (mixed(seed ^ mixed(order[one])) % 1000 < permille)
            failed = pwrite(fd, now + at, BLOCK, (off_t)at) != (ssize_t)BLOCK;
        else
            forgot++;
    }
    close(fd);
    return failed ? -EIO : 0;
}

static int writing(const char *path, const char *from, size_t length, off_t at, struct fuse_file_info *file)
{
    char text[512];
    (void)file;
    if (!strcmp(path, "/cut")) {
        if (length >= sizeof text)
            return -EINVAL;
        memcpy(text, from, length);
        text[length] = 0;
        int failed = cut(text);
        return failed ? failed : (int)length;
    }
    if ((size_t)at + length > size)
        return -ENOSPC;
    memcpy(now + at, from, length);
    for (size_t block = (size_t)at / BLOCK; block * BLOCK < (size_t)at + length; block++) {
        written++;
        used[block * BLOCK / PAGE] = 1;
        if (!dirty[block]) {
            dirty[block] = 1;
            order[pending++] = block;
        }
    }
    return (int)length;
}

static int flushed(const char *path, int data_only, struct fuse_file_info *file)
{
    (void)data_only;
    (void)file;
    if (strcmp(path, "/disk"))
        return 0;
    flushes++;
    for (size_t one = 0; one < pending; one++) {
        memcpy(kept + order[one] * BLOCK, now + order[one] * BLOCK, BLOCK);
        dirty[order[one]] = 0;
    }
    pending = 0;
    return 0;
}

static int listing(const char *path, void *to, fuse_fill_dir_t fill, off_t at, struct fuse_file_info *file,
                   enum fuse_readdir_flags flags)
{
    (void)path, (void)at, (void)file, (void)flags;
    fill(to, "disk", NULL, 0, 0);
    fill(to, "cut", NULL, 0, 0);
    return 0;
}

static const struct fuse_operations operations = {
    .getattr = attributes, .open = opened, .truncate = shortened, .read = reading, .write = writing,
    .fsync = flushed, .readdir = listing,
};

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size = strtoul(argv[2], NULL, 10) / PAGE * PAGE;
    now = calloc(size, 1);
    kept = calloc(size, 1);
    dirty = calloc(size / BLOCK, 1);
    used = calloc(size / PAGE, 1);
    order = calloc(size / BLOCK, sizeof *order);
    if (!now || !kept || !dirty || !used || !order)
        return 1;
    char *words[] = {argv[0], "-f", "-s", argv[1], NULL}; /* one thread: a cut is an instant */
    return fuse_main(4, words, &operations, NULL);
}
