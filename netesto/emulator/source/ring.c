/* See ring.h. */
#include "ring.h"
#include "program.h"

#include <errno.h>
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* With headers older than Linux 5.11 there is no ring. */
#ifdef IORING_FEAT_EXT_ARG

#define ENTRIES 256
#define NS 1000000000

/* Of headers older than Linux 6.1. */
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

static struct {
	int fd;
	unsigned *asked_tail, asked_mask, asked;
	struct io_uring_sqe *entries;
	unsigned *done_head, *done_tail, done_mask;
	struct io_uring_cqe *done;
} ring;

static void *mapped(size_t size, off_t place)
{
	void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, place);
	return found == MAP_FAILED ? NULL : found;
}

static bool set_up(void)
{
	/* What happens to a request happens while this process is in the kernel anyway. */
	struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
	ring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
	if (ring.fd < 0 || !(params.features & IORING_FEAT_SINGLE_MMAP) || !(params.features & IORING_FEAT_EXT_ARG))
		return false;
	size_t asked = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	size_t done = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	char *rings = mapped(asked > done ? asked : done, IORING_OFF_SQ_RING);
	ring.entries = mapped(params.sq_entries * sizeof *ring.entries, IORING_OFF_SQES);
	if (!rings || !ring.entries)
		return false;
	ring.asked_tail = (unsigned *)(rings + params.sq_off.tail);
	ring.asked_mask = *(unsigned *)(rings + params.sq_off.ring_mask);
	unsigned *order = (unsigned *)(rings + params.sq_off.array);
	for (unsigned n = 0; n < params.sq_entries; n++)
		order[n] = n;
	ring.done_head = (unsigned *)(rings + params.cq_off.head);
	ring.done_tail = (unsigned *)(rings + params.cq_off.tail);
	ring.done_mask = *(unsigned *)(rings + params.cq_off.ring_mask);
	ring.done = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
	return true;
}

bool ring_open(void)
{
	bool is_open = set_up();
	if (!is_open && ring.fd >= 0)
		close(ring.fd);
	return is_open;
}

static long enter(unsigned done, int64_t ns)
{
	struct __kernel_timespec most = {ns / NS, ns % NS};
	struct io_uring_getevents_arg how = {.ts = (uint64_t)(uintptr_t)&most};
	unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
	return syscall(SYS_io_uring_enter, ring.fd, ring.asked, done, flags, &how, sizeof how);
}

void ring_wait(unsigned done, int64_t ns)
{
	/* What was asked for has begun, also if the time was over before. */
	if (enter(ns > 0 ? done : 0, ns) < 0 && errno != ETIME && errno != EINTR)
		die("io_uring_enter: %s", strerror(errno));
	ring.asked = 0;
}

static struct io_uring_sqe *ask(int operation, int fd, uint64_t what)
{
	if (ring.asked > ring.asked_mask)
		ring_wait(0, 0);
	unsigned tail = *ring.asked_tail;
	struct io_uring_sqe *entry = &ring.entries[tail & ring.asked_mask];
	memset(entry, 0, sizeof *entry);
	entry->opcode = (unsigned char)operation;
	entry->fd = fd;
	entry->user_data = what;
	__atomic_store_n(ring.asked_tail, tail + 1, __ATOMIC_RELEASE);
	ring.asked++;
	return entry;
}

void ring_read(int fd, void *buffer, unsigned size, uint64_t what)
{
	struct io_uring_sqe *entry = ask(IORING_OP_READ, fd, what);
	entry->addr = (uint64_t)(uintptr_t)buffer;
	entry->len = size;
}

void ring_write(int fd, const void *data, unsigned size, uint64_t what)
{
	struct io_uring_sqe *entry = ask(IORING_OP_WRITE, fd, what);
	entry->addr = (uint64_t)(uintptr_t)data;
	entry->len = size;
}

void ring_poll(int fd, uint64_t what)
{
	ask(IORING_OP_POLL_ADD, fd, what)->poll32_events = POLLIN;
}

bool ring_next(struct done *done)
{
	unsigned head = *ring.done_head;
	if (head == __atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE))
		return false;
	const struct io_uring_cqe *entry = &ring.done[head & ring.done_mask];
	*done = (struct done){entry->user_data, entry->res};
	__atomic_store_n(ring.done_head, head + 1, __ATOMIC_RELEASE);
	return true;
}

#else

bool ring_open(void)
{
	return false;
}

void ring_read(int fd, void *buffer, unsigned size, uint64_t what)
{
	(void)fd, (void)buffer, (void)size, (void)what;
}

void ring_write(int fd, const void *data, unsigned size, uint64_t what)
{
	(void)fd, (void)data, (void)size, (void)what;
}

void ring_poll(int fd, uint64_t what)
{
	(void)fd, (void)what;
}

void ring_wait(unsigned done, int64_t ns)
{
	(void)done, (void)ns;
}

bool ring_next(struct done *done)
{
	(void)done;
	return false;
}

#endif
