/* Reads, writes and waiting by one system call: io_uring(7). In a guest each system call takes switches
 * between processes of the machine, which cost more than all else that becomes of a frame. */
#ifndef NETESTO_RING_H
#define NETESTO_RING_H

#include <stdbool.h>
#include <stdint.h>

/* What was asked for, and what came of it: bytes or events, or the negative of an error. */
struct done {
	uint64_t what;
	int result;
};

/* False if this kernel has none. */
bool ring_open(void);
void ring_read(int fd, void *buffer, unsigned size, uint64_t what);
void ring_write(int fd, const void *data, unsigned size, uint64_t what);
void ring_poll(int fd, uint64_t what);
/* Begin all that was asked for, and wait until so many requests are `done`, or for `ns`. */
void ring_wait(unsigned done, int64_t ns);
bool ring_next(struct done *);

#endif
