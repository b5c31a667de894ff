/*
 * Put before every source file of a kernel for simulated time, behind repeatable.h (kernelconfig.py
 * says which file gets which part).
 *
 * What a guest's programs cost is mostly the kernel's work on their memory. Each process of a guest
 * is a process of this machine, in which every page has to be mapped, by a system call that the
 * kernel makes it carry out. A page fault switches processes six times, and takes thirty times as
 * long as on hardware. Therefore
 *
 * - a fault maps the pages around it, too;
 * - a write to memory that has no file gives the pages around it memory, and if it is shared with
 *   another process since a fork, copies those next to it;
 * - a new process starts without mappings, instead of with copies of its parent's;
 * - memory that is shared by a fork is write-protected in ranges, instead of mapped again page by
 *   page.
 *
 * None of this takes simulated time, or changes what programs see. Linux 6.10 rewrote this part.
 */
#if defined(__KERNEL__) && !defined(__ASSEMBLY__) && !defined(LINKER_SCRIPT) && \
	!defined(__UM_HOST__)
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)

#ifdef NETESTO_TRAP_C
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <asm/tlbflush.h>

/* As many pages as for files (fault_around_bytes); and of those that are copied. */
#define NETESTO_AROUND (16 * PAGE_SIZE)
#define NETESTO_COPIED (4 * PAGE_SIZE)

/* The task whose fault is being handled, and whose mappings follow. */
struct task_struct *netesto_faulting;

static inline unsigned long netesto_first(struct vm_area_struct *vma, unsigned long address)
{
	return max(vma->vm_start, address & ~(NETESTO_AROUND - 1));
}

static inline unsigned long netesto_end(struct vm_area_struct *vma, unsigned long address)
{
	return min(vma->vm_end, (address & ~(NETESTO_AROUND - 1)) + NETESTO_AROUND);
}

static inline bool netesto_is_wanted(pte_t entry, unsigned long distance)
{
	return pte_none(entry) || (!pte_write(entry) && distance < NETESTO_COPIED);
}

static inline vm_fault_t netesto_fault(struct vm_area_struct *vma, unsigned long address,
				       unsigned int flags)
{
	vm_fault_t fault;
	unsigned long at;
	unsigned int state;

	netesto_faulting = current;
	fault = handle_mm_fault(vma, address, flags, NULL);
	/* With either of the last two, the area may be gone. */
	if (fault & (VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_COMPLETED))
		goto out;
	if (!(flags & FAULT_FLAG_WRITE) || !vma_is_anonymous(vma))
		goto out;
	flags &= ~(FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE | FAULT_FLAG_INTERRUPTIBLE);
	/* A copy is mapped at the end: until then no other thread may run, so none waits for memory. */
	state = memalloc_noreclaim_save();
	for (at = netesto_first(vma, address); at < netesto_end(vma, address); at += PAGE_SIZE) {
		pte_t entry = *pte_offset_kernel(pmd_off(vma->vm_mm, at), at);

		if (netesto_is_wanted(entry, at ^ address) &&
		    (handle_mm_fault(vma, at, flags, NULL) & VM_FAULT_ERROR))
			break;
	}
	memalloc_noreclaim_restore(state);
out:
	netesto_faulting = NULL;
	return fault;
}

#define handle_mm_fault(vma, address, flags, regs) netesto_fault(vma, address, flags)
#define flush_tlb_page(vma, address) \
	flush_tlb_range(vma, netesto_first(vma, address), netesto_end(vma, address))
#endif

#if defined(NETESTO_TLB_C) && defined(CONFIG_64BIT)
#include <linux/mman.h>
#include <asm/unistd.h>
#include <os.h>

/* A page that is mapped is about to be used: this machine has it ready, without a fault here. */
static inline int netesto_map(struct mm_id *process, unsigned long address, unsigned long length,
			      int protection, int file, unsigned long long offset, int done,
			      void **data)
{
	unsigned long arguments[] = {
		address, length, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, offset,
	};

	return run_syscall_stub(process, __NR_mmap, arguments, address, data, done);
}
#define map netesto_map
#endif

#ifdef NETESTO_MMU_C
#include <linux/sched.h>
#include <as-layout.h>
#include <os.h>
#include <skas.h>

static inline int netesto_process(unsigned long stack)
{
	struct mm_id process = { .u.pid = start_userspace(stack), .stack = stack };
	void *data = NULL;
	int error;

	if (process.u.pid < 0)
		return process.u.pid;
	error = unmap(&process, 0, TASK_SIZE, 1, &data);
	if (!error)
		return process.u.pid;
	os_kill_ptraced_process(process.u.pid, 1);
	return error;
}
#define copy_context_skas0(stack, parent) netesto_process(stack)
#endif

#ifdef NETESTO_PROCESS_C
#include <asm/mmu_context.h>
/* A new process has nothing to flush, and a thread has what its process has. */
#define force_flush_all() do { } while (0)
#endif

#ifdef NETESTO_MEMORY_C
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched.h>

/* What is protected against writing is not mapped again. */
static inline void netesto_set_wrprotect(struct mm_struct *mm, unsigned long address, pte_t *entry)
{
	bool is_mapped = !pte_newpage(*entry);

	set_pte_at(mm, address, entry, pte_wrprotect(*entry));
	if (is_mapped)
		pte_clear_bits(*entry, _PAGE_NEWPAGE);
}
#define ptep_set_wrprotect netesto_set_wrprotect

/* A page marked as old is mapped without access, and so takes a fault of its own. */
#define pte_mkold(entry) (entry)

/* What a fault maps at its end need not be unmapped, or mapped, before. */
extern struct task_struct *netesto_faulting;
#undef ptep_clear_flush_notify
#define ptep_clear_flush_notify(vma, address, entry) \
	do { \
		if (netesto_faulting == current) \
			ptep_get_and_clear((vma)->vm_mm, address, entry); \
		else \
			ptep_clear_flush(vma, address, entry); \
	} while (0)

static inline int netesto_allow(struct vm_area_struct *vma, unsigned long address, pte_t *place,
				pte_t entry, int dirty)
{
	if (netesto_faulting != current)
		return ptep_set_access_flags(vma, address, place, entry, dirty);
	if (pte_same(*place, entry))
		return 0;
	set_pte_at(vma->vm_mm, address, place, entry);
	return 1;
}
#define ptep_set_access_flags netesto_allow
#endif

#endif
#endif
