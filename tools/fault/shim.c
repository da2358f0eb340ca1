/* Stands between a process and the C library: every call that changes what lies under one folder is numbered; one of
 * them, or all from one on, can be made to fail, or the process killed at it; and all can be recorded with their data.
 *
 * Loaded with LD_PRELOAD, asleep until fault_arm. Calls under the folder take turns, so the record is their order. They
 * are not synced: the record says what was asked for, and a killed process loses nothing that the kernel has. LMDB's
 * write of a meta page goes through a descriptor that is opened with O_DSYNC, which the record tells.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* LATE: the call does what it should, and says that it failed; later ones, if any, fail. */
enum Action { NOTHING, FAIL, SHORT, KILL_BEFORE, KILL_AFTER, LATE };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX], journal[PATH_MAX];
static int armed, trace_fd = -1;
static long calls, strike_at;
static int action, error_number, forever;

#define REAL(result, name, ...) static result (*real_##name)(__VA_ARGS__)
REAL(ssize_t, write, int, const void*, size_t);
REAL(ssize_t, writev, int, const struct iovec*, int);
REAL(ssize_t, pwrite, int, const void*, size_t, off_t);
REAL(ssize_t, pwritev, int, const struct iovec*, int, off_t);
REAL(ssize_t, pwritev2, int, const struct iovec*, int, off_t, int);
REAL(int, fsync, int);
REAL(int, fdatasync, int);
REAL(int, ftruncate, int, off_t);
REAL(int, openat, int, const char*, int, ...);
REAL(int, renameat, int, const char*, int, const char*);
REAL(int, unlinkat, int, const char*, int);
REAL(int, mkdirat, int, const char*, mode_t);

__attribute__((constructor)) static void find_real(void) {
#define FIND(name) *(void**)&real_##name = dlsym(RTLD_NEXT, #name)
    FIND(write); FIND(writev); FIND(pwrite); FIND(pwritev); FIND(pwritev2); FIND(fsync); FIND(fdatasync); FIND(ftruncate);
    FIND(openat); FIND(renameat); FIND(unlinkat); FIND(mkdirat);
}

/* --- What the test says --- */

/* Watch the folder from now on. trace: a descriptor to record to, or -1. Writes to the file named journal_path are
 * recorded too, but never struck. at: the number of the call to strike, from 1; 0 for none. */
void fault_arm(const char* path, const char* journal_path, int trace, long at, int what, int error, int for_ever) {
    snprintf(folder, sizeof folder, "%s", path);
    snprintf(journal, sizeof journal, "%s", journal_path);
    trace_fd = trace;
    strike_at = at;
    action = what;
    error_number = error;
    forever = for_ever;
    calls = 0;
    armed = 1;
}

/* Nothing is struck any more. */
void fault_off(void) { strike_at = 0; }

/* How many calls there were. */
long fault_calls(void) { return calls; }

/* --- Paths --- */

static int inside(const char* path) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static const char* path_of(int fd, char* path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static const char* path_at(int at, const char* name, char* path) {
    char start[PATH_MAX] = "";
    if (name[0] != '/' && at == AT_FDCWD && !getcwd(start, sizeof start)) start[0] = 0;
    if (name[0] != '/' && at != AT_FDCWD) path_of(at, start);
    snprintf(path, PATH_MAX, "%.*s%s%s", PATH_MAX / 2, start, start[0] ? "/" : "", name);
    return path;
}

static const char* name_of(const char* path) { return strrchr(path, '/') + 1; }

static unsigned long inode_of(const char* path) {
    struct stat status;
    return stat(path, &status) ? 0 : status.st_ino;
}

static unsigned long folder_inode(const char* path) {
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%.*s", (int)(name_of(path) - path - 1), path);
    return inode_of(parent);
}

static unsigned long inode_of_fd(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_ino;
}

/* --- One call at a time --- */

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Begin a call; the caller ends it. What happens to it: FAIL, which the caller then leaves undone, SHORT, or LATE. */
static int begin(void) {
    pthread_mutex_lock(&turn);
    calls++;
    if (!strike_at || calls < strike_at || (calls > strike_at && !forever)) return NOTHING;
    if (action == KILL_BEFORE) die();
    return action == LATE && calls > strike_at ? FAIL : action;
}

/* End a call; its result. */
static long end(int fate, long result) {
    if (fate == KILL_AFTER) die();
    int said = fate == FAIL || fate == LATE ? error_number : errno;
    pthread_mutex_unlock(&turn);
    errno = said;
    return fate == FAIL || fate == LATE ? -1 : result;
}

/* A line "call kind inode a b length names", then the data. */
static void record(char kind, unsigned long inode, long a, long b, const char* names, const void* data, size_t length) {
    if (trace_fd < 0) return;
    char line[PATH_MAX];
    int kept = errno;
    int size = snprintf(line, sizeof line, "%ld %c %lu %ld %ld %zu %s\n", calls, kind, inode, a, b, length, names);
    if (real_write(trace_fd, line, size) != size) die();
    if (length && real_write(trace_fd, data, length) != (ssize_t)length) die();
    errno = kept;
}

/* --- Writing --- */

static ssize_t write_at(int fd, const struct iovec* parts, int count, off_t offset) {
    char path[PATH_MAX];
    path_of(fd, path);
    int noted = strcmp(path, journal) == 0;
    size_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    char* data = malloc(length + 1);
    for (int i = 0, at = 0; i < count; at += parts[i++].iov_len) memcpy(data + at, parts[i].iov_base, parts[i].iov_len);
    int fate = NOTHING;
    if (noted) pthread_mutex_lock(&turn);
    else fate = begin();
    if (fate == SHORT) length -= length / 2;
    ssize_t written = -1;
    if (fate != FAIL) {
        off_t start = offset < 0 ? lseek(fd, 0, SEEK_CUR) : offset;
        written = offset < 0 ? real_write(fd, data, length) : real_pwrite(fd, data, length, offset);
        int durable = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
        if (written >= 0) record(noted ? 'M' : 'W', inode_of_fd(fd), start, durable, "", data, written);
    }
    int kept = errno;
    free(data);
    errno = kept;
    return end(fate, written);
}

static int watched(int fd) {
    char path[PATH_MAX];
    return armed && (inside(path_of(fd, path)) || strcmp(path, journal) == 0);
}

ssize_t write(int fd, const void* data, size_t length) {
    if (!watched(fd)) return real_write(fd, data, length);
    struct iovec part = {(void*)data, length};
    return write_at(fd, &part, 1, -1);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
    return watched(fd) ? write_at(fd, parts, count, -1) : real_writev(fd, parts, count);
}

ssize_t pwrite(int fd, const void* data, size_t length, off_t offset) {
    if (!watched(fd)) return real_pwrite(fd, data, length, offset);
    struct iovec part = {(void*)data, length};
    return write_at(fd, &part, 1, offset);
}

ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
    return watched(fd) ? write_at(fd, parts, count, offset) : real_pwritev(fd, parts, count, offset);
}

/* How it is written, past the cache or not, is the same to a disk that is pretended. */
ssize_t pwritev2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
    return watched(fd) ? write_at(fd, parts, count, offset) : real_pwritev2(fd, parts, count, offset, flags);
}

ssize_t pwrite64(int, const void*, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec*, int, off64_t) __attribute__((alias("pwritev")));
ssize_t pwritev64v2(int, const struct iovec*, int, off64_t, int) __attribute__((alias("pwritev2")));

static int sync_file(int fd) {
    int fate = begin();
    int result = fate == FAIL ? -1 : 0;
    if (!result) record('S', inode_of_fd(fd), 0, 0, "", NULL, 0);
    return end(fate, result);
}

int fsync(int fd) { return watched(fd) ? sync_file(fd) : real_fsync(fd); }

int fdatasync(int fd) { return watched(fd) ? sync_file(fd) : real_fdatasync(fd); }

int ftruncate(int fd, off_t size) {
    if (!watched(fd)) return real_ftruncate(fd, size);
    int fate = begin();
    int result = fate == FAIL ? -1 : real_ftruncate(fd, size);
    if (!result) record('T', inode_of_fd(fd), size, 0, "", NULL, 0);
    return end(fate, result);
}

int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));

/* --- Names --- */

static int open_at(int at, const char* name, int flags, mode_t mode) {
    char path[PATH_MAX];
    int unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    if (!armed || !((flags & O_CREAT) || unnamed) || !inside(path_at(at, name, path)))
        return real_openat(at, name, flags, mode);
    int fate = begin();
    int fd = -1;
    if (fate != FAIL) {
        int there = !unnamed && access(path, F_OK) == 0;
        fd = real_openat(at, name, flags, mode);
        if (fd >= 0 && unnamed) record('C', inode_of_fd(fd), inode_of(path), 0, "", NULL, 0);
        if (fd >= 0 && !unnamed && !there) record('C', inode_of_fd(fd), folder_inode(path), 0, name_of(path), NULL, 0);
        if (fd >= 0 && there && (flags & O_TRUNC)) record('T', inode_of_fd(fd), 0, 0, "", NULL, 0);
    }
    if (fd >= 0 && fate == LATE) close(fd);
    return end(fate, fd);
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char* name, int flags, ...) {
    MODE_OF(flags)
    return open_at(AT_FDCWD, name, flags, mode);
}

int openat(int at, const char* name, int flags, ...) {
    MODE_OF(flags)
    return open_at(at, name, flags, mode);
}

int open64(const char*, int, ...) __attribute__((alias("open")));
int openat64(int, const char*, int, ...) __attribute__((alias("openat")));

int mkdirat(int at, const char* name, mode_t mode) {
    char path[PATH_MAX];
    if (!armed || !inside(path_at(at, name, path))) return real_mkdirat(at, name, mode);
    int fate = begin();
    int result = fate == FAIL ? -1 : real_mkdirat(at, name, mode);
    if (!result) record('C', inode_of(path), folder_inode(path), 1, name_of(path), NULL, 0);
    return end(fate, result);
}

int mkdir(const char* name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int unlinkat(int at, const char* name, int flags) {
    char path[PATH_MAX];
    if (!armed || !inside(path_at(at, name, path))) return real_unlinkat(at, name, flags);
    int fate = begin();
    int result = fate == FAIL ? -1 : real_unlinkat(at, name, flags);
    if (!result) record('U', 0, folder_inode(path), 0, name_of(path), NULL, 0);
    return end(fate, result);
}

int unlink(const char* name) { return unlinkat(AT_FDCWD, name, 0); }

int rmdir(const char* name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int renameat(int from_at, const char* from, int to_at, const char* to) {
    char source[PATH_MAX], target[PATH_MAX], names[2 * NAME_MAX + 2];
    if (!armed || !inside(path_at(to_at, to, target))) return real_renameat(from_at, from, to_at, to);
    path_at(from_at, from, source);
    int fate = begin();
    unsigned long inode = inode_of(source);
    int result = fate == FAIL ? -1 : real_renameat(from_at, from, to_at, to);
    snprintf(names, sizeof names, "%.*s/%.*s", NAME_MAX, name_of(source), NAME_MAX, name_of(target));
    if (!result) record('R', inode, folder_inode(source), folder_inode(target), names, NULL, 0);
    return end(fate, result);
}

int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
