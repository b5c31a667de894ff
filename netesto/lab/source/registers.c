/*
 * netesto-registers.so, loaded before the C library of a user-mode kernel (guest.py).
 *
 * Such a kernel keeps 2696 bytes of the floating-point registers of its processes, all that there
 * were before AMX. On a machine whose processor has AMX, Linux writes them only if all 11008 bytes
 * are given, and refuses others with EFAULT, so that no process of a guest would run (Linux 6.13
 * knows). Here what is missing is added: zeros, because a process has none of these registers before
 * it asks for them, which a guest's kernel does not know how to do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

/* More than any processor has. */
#define MOST_BYTES 65536

typedef long (*ptrace_function)(int request, pid_t pid, void *address, void *data);

static ptrace_function next;

/* The registers of all processes are written one after the other: a user-mode kernel is one thread. */
static char all[MOST_BYTES];
static size_t all_bytes;

__attribute__((constructor)) static void find_next(void)
{
	next = (ptrace_function)dlsym(RTLD_NEXT, "ptrace");
}

/* How much this machine's kernel has of a stopped process's registers. */
static size_t size_of(pid_t pid)
{
	struct iovec registers = { .iov_base = all, .iov_len = sizeof(all) };

	if (next(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &registers) < 0)
		return 0;
	memset(all, 0, sizeof(all));
	return registers.iov_len;
}

static long write_all(pid_t pid, const struct iovec *given)
{
	struct iovec registers = { .iov_base = all, .iov_len = all_bytes };

	memcpy(all, given->iov_base, given->iov_len);
	return next(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &registers);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	pid_t pid;
	void *address, *data;
	long result;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);

	if (request != PTRACE_SETREGSET || address != (void *)NT_X86_XSTATE)
		return next(request, pid, address, data);
	if (!all_bytes) {
		result = next(request, pid, address, data);
		if (result == 0 || errno != EFAULT)
			return result;
		all_bytes = size_of(pid);
	}
	if (all_bytes <= ((struct iovec *)data)->iov_len) {
		all_bytes = 0;
		errno = EFAULT;
		return -1;
	}
	return write_all(pid, data);
}
