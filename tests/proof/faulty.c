/* Puts one fault into one call of a program that is loaded with it: LD_PRELOAD=faulty.so LAB_FAULT=NAME:N:HOW[:ERRNO].

   NAME is the system call as strace has it; of `openat` only those count that create or empty a file. HOW is `kill`
   (SIGKILL in the place of the call), `fail` (an error in the place of the call) or `after` (the call happens, and an
   error is told). This is for what strace cannot do: to tell opens that create from those that do not, whose number
   depends on how many processes the machine has, and to let a call happen and fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char wanted_name[32];
static char wanted_how[8];
static long wanted_at;
static int wanted_errno;
static long seen;

__attribute__((constructor)) static void read_wish(void) {
  const char *wish = getenv("LAB_FAULT");
  char text[96], *rest = text;
  if (wish == NULL || strlen(wish) >= sizeof text) return;
  strcpy(text, wish);
  strncpy(wanted_name, strsep(&rest, ":"), sizeof wanted_name - 1);
  wanted_at = atol(strsep(&rest, ":"));
  strncpy(wanted_how, strsep(&rest, ":"), sizeof wanted_how - 1);
  wanted_errno = rest != NULL ? atoi(rest) : EIO;
}

/* 0: not this one; 1: it fails in its place; 2: it fails after it happened. A kill does not return. */
static int fault(const char *name) {
  if (wanted_at == 0 || strcmp(name, wanted_name) != 0) return 0;
  if (__atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) != wanted_at) return 0;
  const char *mark = getenv("LAB_HIT");
  if (mark != NULL) syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600));
  if (wanted_how[0] == 'k') kill(getpid(), SIGKILL);
  return wanted_how[0] == 'a' ? 2 : 1;
}

#define TELL(ret) return (errno = wanted_errno, (ret))
#define WRAPPED(name, types, names)                                     \
  int name types {                                                      \
    static int(*real) types;                                            \
    int how = fault(#name), result;                                     \
    if (how == 1) TELL(-1);                                             \
    if (real == NULL) real = (int(*) types)dlsym(RTLD_NEXT, #name);     \
    result = real names;                                                \
    if (how == 2 && result == 0) TELL(-1);                              \
    return result;                                                      \
  }

WRAPPED(rename, (const char *a, const char *b), (a, b))
WRAPPED(renameat, (int d, const char *a, int e, const char *b), (d, a, e, b))
WRAPPED(renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f))
WRAPPED(link, (const char *a, const char *b), (a, b))
WRAPPED(linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f))
WRAPPED(unlink, (const char *a), (a))
WRAPPED(unlinkat, (int d, const char *a, int f), (d, a, f))
WRAPPED(rmdir, (const char *a), (a))
WRAPPED(mkdir, (const char *a, mode_t m), (a, m))
WRAPPED(mkdirat, (int d, const char *a, mode_t m), (d, a, m))

#define MODE_OF(flags)                                   \
  mode_t mode = 0;                                       \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {               \
    va_list rest;                                        \
    va_start(rest, flags);                               \
    mode = va_arg(rest, mode_t);                         \
    va_end(rest);                                        \
  }                                                      \
  if (((flags) & (O_CREAT | O_TRUNC)) && fault("openat")) TELL(-1)

#define OPENING(name)                                                                        \
  int name(const char *path, int flags, ...) {                                               \
    static int (*real)(const char *, int, ...);                                              \
    MODE_OF(flags);                                                                          \
    if (real == NULL) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);       \
    return real(path, flags, mode);                                                          \
  }
#define OPENING_AT(name)                                                                     \
  int name(int dir, const char *path, int flags, ...) {                                      \
    static int (*real)(int, const char *, int, ...);                                         \
    MODE_OF(flags);                                                                          \
    if (real == NULL) real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name);  \
    return real(dir, path, flags, mode);                                                     \
  }

OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)
