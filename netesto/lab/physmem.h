/*
 * Put before the source files of a kernel for simulated time that find a place for its memory
 * (kernelconfig.py). One of those named mem.c belongs to the side of the machine, and gets nothing.
 *
 * TCP's tables and limits follow from a guest's memory, which lies behind the kernel's program, as
 * does the heap of a process; how far behind, this machine chooses at random, up to a gigabyte
 * (Linux 6.9), if it is not asked for fixed addresses, which containers may forbid. The kernel would
 * begin behind the heap, and add the distance to its memory. Here it begins behind the program,
 * because the C library is asked for a heap elsewhere (guest.py: HEAP). And it is memory without a
 * file: it takes no space of a file system, and only as much as the guest uses.
 */
#ifndef __UM_HOST__
#ifdef NETESTO_SBRK_C
#include <linux/sizes.h>
#include <asm/sections.h>
#include <kern.h>
#include <os.h>

void *__wrap_malloc(int size);
void __wrap_free(void *place);

static inline void *netesto_end_of_program(void)
{
	char *heap = __wrap_malloc(1);

	if (heap >= _end && heap < _end + SZ_2G) {
		os_warn("netesto: the C library's heap is where the guest's memory should be\n");
		exit(1);
	}
	__wrap_free(heap);
	return _end;
}
#define sbrk(increment) netesto_end_of_program()
#endif

#ifdef NETESTO_PHYSMEM_C
#include <kern.h>
#include <os.h>

int memfd_create(const char *name, unsigned int flags);
int ftruncate(int file, long length);

static inline int netesto_memory(unsigned long long length)
{
	int file = memfd_create("guest", 0x1 /* MFD_CLOEXEC */);

	if (file >= 0 && ftruncate(file, length) < 0) {
		os_close_file(file);
		file = -1;
	}
	return file >= 0 ? file : create_mem_file(length);
}
#define create_mem_file(length) netesto_memory(length)
#endif
#endif
