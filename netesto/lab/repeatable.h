/*
 * Put before every source file of a kernel for simulated time, so that the source itself stays
 * untouched (kernelconfig.py says which file gets which part).
 *
 * Two runs with one seed are alike only if nothing in them depends on real time, or on where in
 * memory something lies: that changes with every name, file and variable of the environment.
 *
 * Random numbers. A user-mode kernel takes its randomness from the machine (os_getrandom), and
 * stirs in its command line and the date. Random numbers choose TCP's first sequence numbers and
 * ports, the seeds of every hash table, and Python's. Here the kernel starts from a fixed sequence;
 * what a run wants different, it stirs in itself (inside.py: the seed). From then on the sequence
 * goes on by itself. An ordinary kernel starts it anew after a second and every now and then, from
 * a pool that each interrupt stirs with the address of what it interrupted. Kernels before 6.2 look
 * at the sequence's age when it is used, later ones have a timer.
 *
 * Whatever a program does must not change what happens to packets, so not all of the kernel takes
 * its numbers from the sequence that programs take theirs from. A file in memory costs a number, and
 * so does a thread; a program that finds its Python modules compiled makes fewer files. Therefore
 * sequences of their own (kernelconfig.py: SEQUENCES) have: chance on the network (netem's losses
 * and jitter, RED's drops, BBR's phases); the rest of the network's stack (ports, secrets, the
 * delays of ARP and IPv6); where programs lie in memory; and what only has to be some number.
 *
 * Time. Simulated time passes when everything waits. But a look at the clock takes 256 ns, and an
 * error 1 us, lest a program that polls polls forever. So each thread that is woken (and gRPC wakes
 * some by the place of its timers in memory) would move every later packet by some of that. Here
 * the first looks and errors after an interrupt take no time at all; only who goes on polling is
 * made to wait, and longer at each look who has polled for a millisecond. The clock counts single
 * nanoseconds instead of 256 of them, a timer may be set to the next one, and none waits for others:
 * each fires at its moment, wherever other timers are.
 */
#if defined(__KERNEL__) && !defined(__ASSEMBLY__) && !defined(LINKER_SCRIPT)

#ifdef NETESTO_OWN
#define NETESTO_JOINED(own, what) netesto_##own##_##what
#define NETESTO_NAMED(own, what) NETESTO_JOINED(own, what)
#define get_random_bytes NETESTO_NAMED(NETESTO_OWN, bytes)
#define get_random_u8 NETESTO_NAMED(NETESTO_OWN, u8)
#define get_random_u16 NETESTO_NAMED(NETESTO_OWN, u16)
#define get_random_u32 NETESTO_NAMED(NETESTO_OWN, u32)
#define get_random_u64 NETESTO_NAMED(NETESTO_OWN, u64)
#define __get_random_u32_below NETESTO_NAMED(NETESTO_OWN, below)
#endif

#include <linux/types.h>

/* What programs read of the clock: how often they have looked since the last interrupt, and what
 * time it is for CLOCK_MONOTONIC. */
struct netesto_clock {
	u64 looks;
	u64 now_ns;
};
extern struct netesto_clock *netesto_clock;
void netesto_say_time(void);

/* More looks at the clock, or errors, than honest programs make at one moment; a program that polls
 * makes as many in some ms. */
#define NETESTO_FREE 4000

#define os_getrandom netesto_fixed_bytes
static inline ssize_t netesto_fixed_bytes(void *buffer, size_t length, unsigned int flags)
{
	unsigned char *byte = buffer;
	size_t at;

	for (at = 0; at < length; at++)
		byte[at] = (unsigned char)(at * 167 + 13);
	return (ssize_t)length;
}

#ifdef NETESTO_RANDOM_C
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/jiffies.h>
#include <linux/workqueue.h>

/* SplitMix64: Steele, Lea, Flood, Fast splittable pseudorandom number generators, OOPSLA 2014. */
static u64 netesto_next(u64 *state)
{
	u64 word = *state += 0x9e3779b97f4a7c15ULL;

	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
	return word ^ (word >> 31);
}

#define NETESTO_SEQUENCE(own)						\
static u64 netesto_##own##_state;					\
u64 netesto_##own##_u64(void);						\
u64 netesto_##own##_u64(void)						\
{									\
	return netesto_next(&netesto_##own##_state);			\
}									\
u32 netesto_##own##_u32(void);						\
u32 netesto_##own##_u32(void)						\
{									\
	return netesto_##own##_u64() >> 32;				\
}									\
u16 netesto_##own##_u16(void);						\
u16 netesto_##own##_u16(void)						\
{									\
	return netesto_##own##_u64() >> 48;				\
}									\
u8 netesto_##own##_u8(void);						\
u8 netesto_##own##_u8(void)						\
{									\
	return netesto_##own##_u64() >> 56;				\
}									\
u32 netesto_##own##_below(u32 ceil);					\
u32 netesto_##own##_below(u32 ceil)					\
{									\
	return ((netesto_##own##_u64() >> 32) * ceil) >> 32;		\
}									\
void netesto_##own##_bytes(void *buffer, size_t length);		\
void netesto_##own##_bytes(void *buffer, size_t length)			\
{									\
	u8 *byte = buffer;						\
									\
	while (length--)						\
		*byte++ = netesto_##own##_u8();				\
}

NETESTO_SEQUENCE(chance)
NETESTO_SEQUENCE(stack)
NETESTO_SEQUENCE(places)
NETESTO_SEQUENCE(others)

static int __init netesto_chance_setup(char *text)
{
	u64 seed;

	if (kstrtou64(text, 10, &seed))
		return 0;
	netesto_chance_state = seed;
	netesto_stack_state = netesto_next(&seed);
	netesto_places_state = netesto_next(&seed);
	netesto_others_state = netesto_next(&seed);
	return 1;
}
__setup("netesto.chance=", netesto_chance_setup);

/* Until programs share it (switches.h). */
static struct netesto_clock netesto_unshared;
struct netesto_clock *netesto_clock = &netesto_unshared;

void netesto_say_time(void)
{
	unsigned long flags;

	/* Without interrupts, this is no look. */
	local_irq_save(flags);
	netesto_clock->now_ns = ktime_get_ns();
	local_irq_restore(flags);
}

/* Its only strlen() measures the command line, which holds the date and changing paths. */
#define strlen(text) ((size_t)0)
#define ktime_get_real() ktime_get_boottime()
/* Its sequence is never too old. */
#undef time_is_before_jiffies
#define time_is_before_jiffies(when) ((void)(when), false)
#undef queue_delayed_work
#define queue_delayed_work(queue, work, delay) false
#undef pr_fmt
#endif

#if defined(NETESTO_TIME_C) || defined(NETESTO_SYSCALL_C)
#include <linux/kernel_stat.h>
#include <linux/preempt.h>
#include <linux/time-internal.h>
#include <asm/delay.h>

/* Who polls for longer than that without an interrupt polls for long: a program that waits for its
 * network by polling (iperf3 does, for a round trip) gets there with a fraction of the looks. */
#define NETESTO_LONG 10000
#define NETESTO_LONG_NS 4096
#endif

#ifdef NETESTO_TIME_C
#include <linux/interrupt.h>

static unsigned long netesto_interrupts;
static bool netesto_polls_on;

/* The first looks since an interrupt are free. */
static inline void netesto_interrupted(void)
{
	unsigned long interrupts = kstat_cpu_irqs_sum(0);

	if (interrupts == netesto_interrupts)
		return;
	netesto_interrupts = interrupts;
	netesto_polls_on = netesto_clock->looks > (netesto_polls_on ? NETESTO_FREE : NETESTO_LONG);
	netesto_clock->looks = 0;
}

/* What the clock asks last before a look at it takes time: that is decided, and done, here. */
static inline bool netesto_looked(void)
{
	netesto_interrupted();
	if (netesto_clock->looks++ < NETESTO_FREE)
		return true;
	if (netesto_clock->looks > NETESTO_LONG)
		netesto_polls_on = true;
	time_travel_ndelay(netesto_polls_on ? NETESTO_LONG_NS : 256);
	netesto_say_time();
	return true;
}

/* The handler of the timer, after each moment at which something happens. */
static inline void netesto_ticked(void)
{
	netesto_interrupted();
	netesto_say_time();
}
#define IRQ_HANDLED (netesto_ticked(), IRQ_HANDLED)
#undef in_softirq
#define in_softirq() (softirq_count() || netesto_looked())
#undef TIMER_MULTIPLIER
#define TIMER_MULTIPLIER 1
#undef TIMER_MIN_DELTA
#define TIMER_MIN_DELTA 1
#endif

#ifdef NETESTO_SYSCALL_C
/* After a system call that failed. */
static inline void netesto_failed(void)
{
	static unsigned long last, count;
	unsigned long interrupts = kstat_cpu_irqs_sum(0);

	if (interrupts != last) {
		last = interrupts;
		count = 0;
	}
	if (count++ < NETESTO_FREE)
		return;
	um_udelay(1);
	netesto_say_time();
}
#define um_udelay(us) netesto_failed()
#endif

#ifdef NETESTO_SELECT_C
#include <linux/sched.h>
#include <linux/sched/rt.h>
/* Who waits for input is woken when it asked to be, not up to a thousandth of the time later, as if
 * it had real-time priority. */
#undef rt_task
#define rt_task(task) true
#define timer_slack_ns flags * 0
#endif
#endif
