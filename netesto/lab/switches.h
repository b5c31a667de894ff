/*
 * Put before every source file of a kernel for simulated time, behind memory.h (kernelconfig.py says
 * which file gets which part).
 *
 * A system call of a program in a guest stops its process and starts it again: two switches, and
 * several system calls of the guest's kernel, some 25 us. Therefore
 *
 * - a program reads the monotonic clock from a page that all programs share, and calls the kernel
 *   only when looking takes time (repeatable.h); Python does so at each lock;
 * - a process that stopped gets its floating-point registers back only if they are others now, and
 *   is asked for them once;
 * - whether a folder may be searched is left to this machine, which decides it at each look at
 *   something in it, instead of being asked for each folder of each path.
 *
 * None of this takes simulated time, or changes what programs see.
 */
#if defined(__KERNEL__) && !defined(__ASSEMBLY__) && !defined(LINKER_SCRIPT) && \
	!defined(__UM_HOST__)
#include <linux/version.h>
#define NETESTO_KNOWN_KERNEL \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0))

#if defined(NETESTO_VMA_C) && NETESTO_KNOWN_KERNEL
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mm.h>

static struct page *netesto_pages[2];

static int __init netesto_share_clock(void)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	if (!page)
		return -ENOMEM;
	netesto_pages[0] = page;
	netesto_clock = page_address(page);
	return 0;
}
subsys_initcall(netesto_share_clock);

/* The page before that of the functions is between them and the stack, and free. */
static inline int netesto_install(struct mm_struct *mm, unsigned long functions,
				  unsigned long length, unsigned long flags, struct page **pages)
{
	int error = install_special_mapping(mm, functions - PAGE_SIZE, PAGE_SIZE,
					    VM_READ | VM_WRITE | VM_SHARED |
					    VM_MAYREAD | VM_MAYWRITE | VM_MAYSHARE,
					    netesto_pages);

	return error ? error : install_special_mapping(mm, functions, length, flags, pages);
}
#define install_special_mapping netesto_install
#endif

#if defined(NETESTO_UM_VDSO_C) && NETESTO_KNOWN_KERNEL
#include <linux/time.h>
#include <asm/page.h>
#include <asm/unistd.h>

static int netesto_ask(clockid_t clock, struct __kernel_old_timespec *result);

int __vdso_clock_gettime(clockid_t clock, struct __kernel_old_timespec *result);
int __vdso_clock_gettime(clockid_t clock, struct __kernel_old_timespec *result)
{
	volatile struct netesto_clock *now;
	unsigned long here;

	asm("lea 0(%%rip), %0" : "=r" (here));
	now = (void *)((here & PAGE_MASK) - PAGE_SIZE);
	if (clock != CLOCK_MONOTONIC || now->looks >= NETESTO_FREE || !now->now_ns)
		return netesto_ask(clock, result);
	now->looks++;
	result->tv_sec = now->now_ns / NSEC_PER_SEC;
	result->tv_nsec = now->now_ns % NSEC_PER_SEC;
	return 0;
}
#define __vdso_clock_gettime netesto_ask
#endif

#ifdef NETESTO_MMU_C
/* process.c of this machine's side calls these instead of get_fp_registers and put_fp_registers. */
int netesto_get_fp(int pid, unsigned long *registers);
int netesto_put_fp(int pid, unsigned long *registers);
int get_fp_registers(int pid, unsigned long *registers) __attribute__((weak));
int put_fp_registers(int pid, unsigned long *registers) __attribute__((weak));

#if NETESTO_KNOWN_KERNEL && defined(CONFIG_64BIT)
#include <linux/sched.h>
#include <linux/string.h>
#include <os.h>
#include <skas.h>

/* The registers that a stopped process has, by its number; of a running one they are not known. */
struct netesto_stopped {
	int pid;
	unsigned long registers[MAX_FP_NR];
};

static inline struct netesto_stopped *netesto_stopped(int pid)
{
	static struct netesto_stopped processes[16];

	return &processes[pid % 16];
}

int netesto_get_fp(int pid, unsigned long *registers)
{
	struct netesto_stopped *process = netesto_stopped(pid);
	int error;

	if (process->pid == pid) {
		memcpy(registers, process->registers, sizeof(process->registers));
		return 0;
	}
	error = get_fp_registers(pid, registers);
	if (!error) {
		process->pid = pid;
		memcpy(process->registers, registers, sizeof(process->registers));
	}
	return error;
}

/* It runs next: as the program that it was, or after a handler of this machine's that found out
 * about a fault; before it runs as the program again, this is called again. */
int netesto_put_fp(int pid, unsigned long *registers)
{
	struct netesto_stopped *process = netesto_stopped(pid);
	bool has_them = process->pid == pid &&
			!memcmp(process->registers, registers, sizeof(process->registers));

	if (process->pid == pid)
		process->pid = 0;
	return has_them ? 0 : put_fp_registers(pid, registers);
}

/* A new process may have the number of one that has ended. */
static inline int netesto_started(int pid)
{
	if (pid > 0 && netesto_stopped(pid)->pid == pid)
		netesto_stopped(pid)->pid = 0;
	return pid;
}
#define start_userspace(stack) netesto_started(start_userspace(stack))
#else
int netesto_get_fp(int pid, unsigned long *registers)
{
	return get_fp_registers(pid, registers);
}

int netesto_put_fp(int pid, unsigned long *registers)
{
	return put_fp_registers(pid, registers);
}
#endif
#endif

#if defined(NETESTO_HOSTFS_C) && NETESTO_KNOWN_KERNEL
#include <linux/fs.h>

static int netesto_usual_permission(struct user_namespace *user, struct inode *inode, int desired);

static int hostfs_permission(struct user_namespace *user, struct inode *inode, int desired)
{
	if (S_ISDIR(inode->i_mode) && (desired & (MAY_READ | MAY_WRITE | MAY_EXEC)) == MAY_EXEC)
		return generic_permission(&init_user_ns, inode, desired);
	return netesto_usual_permission(user, inode, desired);
}
/* The definition only: what refers to the function has no parentheses. */
#define hostfs_permission(user, inode, desired) netesto_usual_permission(user, inode, desired)
#endif
#endif
