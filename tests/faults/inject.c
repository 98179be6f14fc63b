/* Runs a program and, at its Nth system call on files of one folder, lets the call fail, kills the
 * program, or makes a file shorter:
 *
 *   inject --class write|read|close --at N [--all] [--under FOLDER] [--count FILE]
 *          [--fail ERRNO | --kill | --truncate FILE SIZE] -- PROGRAM ARGUMENT ...
 *
 * Class write: everything that changes files (opening for writing, writing, cutting, syncing, linking,
 * renaming); class read: reading; class close: closing, as after a mapping. --all: every later call fails, too, as on a full disk. --count: the
 * number of such calls is written there at the end. The exit code is the program's, or 128 + the signal
 * that ended it; 125: the injection itself failed. Children and threads are followed. x86-64 Linux.
 *
 * A library that is loaded before others (LD_PRELOAD) would not see what the C library calls inside
 * fwrite() and fread(): so this traces (ptrace), stopping only at the calls that matter (seccomp). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBroken = 125 };

static const char* folder = "/";
static const char* count_file = NULL;
static int fail_with = 0, to_kill = 0, all = 0;
static const char* truncated = NULL;
static long truncated_to = 0, at = 0, seen = 0;

static const long kWriting[] = {SYS_write,     SYS_pwrite64, SYS_writev,  SYS_pwritev,  SYS_ftruncate,
                                SYS_fallocate, SYS_fsync,    SYS_fdatasync, SYS_linkat, SYS_link,
                                SYS_rename,    SYS_renameat, SYS_renameat2, SYS_openat, SYS_open};
static const long kReading[] = {SYS_read, SYS_pread64, SYS_readv, SYS_preadv};
static const long kClosing[] = {SYS_close};

static const long* calls = kWriting;
static size_t number_of_calls = sizeof kWriting / sizeof *kWriting;

static void broken(const char* what) {
  perror(what);
  exit(kBroken);
}

static void trace_me(char** command) {
  struct sock_filter program[64];
  size_t n = 0;
  program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < number_of_calls; ++i) {
    program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  }
  program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog filter = {(unsigned short)n, program};
  if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) broken("ptrace");
  raise(SIGSTOP); /* the tracer sets its options now */
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) broken("prctl");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) broken("seccomp");
  execvp(command[0], command);
  broken(command[0]);
}

static int is_under(const char* path) {
  const size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static int descriptor_is_under(pid_t id, unsigned long descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/%d/fd/%d", id, (int)descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return is_under(path);
}

static int path_is_under(pid_t id, unsigned long address) {
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/%d/mem", id);
  const int memory = open(name, O_RDONLY);
  if (memory < 0) return 0;
  const ssize_t length = pread(memory, path, sizeof path - 1, (off_t)address);
  close(memory);
  if (length <= 0) return 0;
  path[length] = '\0';
  return is_under(path);
}

static int opens_for_writing(unsigned long flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

static int matters(pid_t id, const struct user_regs_struct* call) {
  switch (call->orig_rax) {
    case SYS_openat:
      return opens_for_writing(call->rdx) && path_is_under(id, call->rsi);
    case SYS_open:
      return opens_for_writing(call->rsi) && path_is_under(id, call->rdi);
    case SYS_linkat:
    case SYS_renameat:
    case SYS_renameat2:
      return path_is_under(id, call->r10);
    case SYS_link:
    case SYS_rename:
      return path_is_under(id, call->rsi);
    default:
      return descriptor_is_under(id, call->rdi);
  }
}

static void at_call(pid_t id, pid_t first) {
  struct user_regs_struct call;
  if (ptrace(PTRACE_GETREGS, id, 0, &call) != 0 || !matters(id, &call)) return;
  ++seen;
  if (at == 0 || seen < at || (seen > at && !all)) return;
  if (to_kill) {
    kill(first, SIGKILL);
  } else if (truncated != NULL) {
    if (truncate(truncated, truncated_to) != 0) broken(truncated);
  } else {
    call.orig_rax = (unsigned long long)-1;
    call.rax = (unsigned long long)-fail_with;
    if (ptrace(PTRACE_SETREGS, id, 0, &call) != 0) broken("ptrace");
  }
}

static int error_number(const char* name) {
  static const struct {
    const char* name;
    int number;
  } kErrors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EINTR", EINTR}};
  for (size_t i = 0; i < sizeof kErrors / sizeof *kErrors; ++i)
    if (strcmp(name, kErrors[i].name) == 0) return kErrors[i].number;
  fprintf(stderr, "inject: unknown error %s\n", name);
  exit(kBroken);
}

int main(int argc, char** argv) {
  int i = 1;
  for (; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    const int more = i + 1 < argc;
    if (strcmp(argv[i], "--class") == 0 && more) {
      ++i;
      if (strcmp(argv[i], "read") == 0) {
        calls = kReading;
        number_of_calls = sizeof kReading / sizeof *kReading;
      } else if (strcmp(argv[i], "close") == 0) {
        calls = kClosing;
        number_of_calls = 1;
      }
    }
    else if (strcmp(argv[i], "--at") == 0 && more) at = atol(argv[++i]);
    else if (strcmp(argv[i], "--all") == 0) all = 1;
    else if (strcmp(argv[i], "--under") == 0 && more) folder = argv[++i];
    else if (strcmp(argv[i], "--count") == 0 && more) count_file = argv[++i];
    else if (strcmp(argv[i], "--fail") == 0 && more) fail_with = error_number(argv[++i]);
    else if (strcmp(argv[i], "--kill") == 0) to_kill = 1;
    else if (strcmp(argv[i], "--truncate") == 0 && i + 2 < argc) {
      truncated = argv[++i];
      truncated_to = atol(argv[++i]);
    } else {
      fprintf(stderr, "inject: unknown option %s\n", argv[i]);
      return kBroken;
    }
  }
  if (i + 1 >= argc) {
    fprintf(stderr, "inject: no program\n");
    return kBroken;
  }
  const pid_t first = fork();
  if (first < 0) broken("fork");
  if (first == 0) trace_me(argv + i + 1);
  int status = 0, code = kBroken;
  if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status)) broken("start");
  const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                       PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SETOPTIONS, first, 0, options) != 0) broken("ptrace");
  ptrace(PTRACE_CONT, first, 0, 0);
  for (;;) {
    const pid_t id = waitpid(-1, &status, __WALL);
    if (id < 0) break; /* all have ended */
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (id == first) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      continue;
    }
    int signal = WSTOPSIG(status);
    const int event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP) at_call(id, first);
    if (event != 0 || signal == SIGTRAP || signal == SIGSTOP) signal = 0;
    ptrace(PTRACE_CONT, id, 0, signal);
  }
  if (count_file != NULL) {
    FILE* file = fopen(count_file, "w");
    if (file == NULL || fprintf(file, "%ld\n", seen) < 0 || fclose(file) != 0) broken(count_file);
  }
  return code;
}
