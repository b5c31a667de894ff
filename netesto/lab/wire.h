/*
 * Put before net/sched/sch_netem.c of a kernel for simulated time (kernelconfig.py), and nowhere else.
 *
 * netem delays packets, and can send them one after the other at a rate; but its queue and the packets
 * on their way are one list with one limit, and a qdisc below it gets packets only after their delay.
 * So no queue, and no AQM, can be before its rate. Here a netem that has a rate and a qdisc below it is
 * a wire:
 *
 *     the qdisc below (queue, AQM) ─ one packet at a time, for size / rate ─ netem (loss, delay, …)
 *
 * A packet leaves the queue when the one before it has left the sender, and arrives size / rate + delay
 * after that, to the nanosecond. netem without a rate, or without a qdisc below it, is what it always
 * was. A token bucket (tbf) with the same rate would pass a packet at once that finds it idle.
 *
 * As with tbf, what the queue drops is counted by the wire, too; the losses on the wire are the rest.
 */
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <net/sock.h>

/* Programs see by /sys/module/sch_netem/parameters/wire that this kernel has wires. */
static bool netesto_has_wires = true;
module_param_named(wire, netesto_has_wires, bool, 0444);

/* Behind netem's own data. */
struct netesto_wire {
	struct Qdisc *queue;
	struct qdisc_watchdog watchdog;
	/* The packet that is being sent, and when its last bit leaves: that instant is a fraction of a
	 * nanosecond later, by this number of bytes x seconds / 10^9. */
	struct sk_buff *sending;
	u64 free_ns;
	u64 rest;
	/* netem is being given a packet, and may give back a copy of it. */
	bool passing;
};

static struct Qdisc_ops netesto_netem;
static struct Qdisc_class_ops netesto_classes;
static size_t netesto_rate_at, netesto_wire_at;

static struct netesto_wire *netesto_wire_of(struct Qdisc *sch)
{
	return (void *)((char *)qdisc_priv(sch) + netesto_wire_at);
}

/* In bytes a second; 0: none. */
static u64 *netesto_rate_of(struct Qdisc *sch)
{
	return (void *)((char *)qdisc_priv(sch) + netesto_rate_at);
}

static int netesto_wire_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct netesto_wire *wire = netesto_wire_of(sch);
	unsigned int len = qdisc_pkt_len(skb);
	int ret;

	if (!wire->queue || wire->passing)
		return netesto_netem.enqueue(skb, sch, to_free);
	/* It has left its host: what waits here does not hold its sender back. */
	skb_orphan_partial(skb);
	ret = qdisc_enqueue(skb, wire->queue, to_free);
	if (ret != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(ret))
			qdisc_qstats_drop(sch);
		return ret;
	}
	sch->qstats.backlog += len;
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

/* The packet has left: netem loses, changes, copies or delays it, and knows no rate. */
static void netesto_wire_pass(struct Qdisc *sch, struct sk_buff *skb)
{
	struct netesto_wire *wire = netesto_wire_of(sch);
	u64 *rate = netesto_rate_of(sch), hidden = *rate;
	struct sk_buff *to_free = NULL;

	sch->qstats.backlog -= qdisc_pkt_len(skb);
	sch->q.qlen--;
	*rate = 0;
	wire->passing = true;
	netesto_netem.enqueue(skb, sch, &to_free);
	wire->passing = false;
	*rate = hidden;
	kfree_skb_list(to_free);
}

static struct sk_buff *netesto_wire_dequeue(struct Qdisc *sch)
{
	struct netesto_wire *wire = netesto_wire_of(sch);
	u64 rate = *netesto_rate_of(sch);
	u64 now, begin;
	struct sk_buff *skb;

	if (!wire->queue)
		return netesto_netem.dequeue(sch);
	now = begin = ktime_get_ns();
	while (!wire->sending || wire->free_ns <= now) {
		if (wire->sending) {
			skb = wire->sending;
			wire->sending = NULL;
			begin = wire->free_ns;
			netesto_wire_pass(sch, skb);
		} else {
			wire->rest = 0;
		}
		skb = wire->queue->ops->dequeue(wire->queue);
		if (!skb)
			break;
		wire->sending = skb;
		wire->free_ns = begin;
		if (rate)
			wire->free_ns += div64_u64_rem((u64)qdisc_pkt_len(skb) * NSEC_PER_SEC +
						       wire->rest, rate, &wire->rest);
	}
	if (wire->sending)
		qdisc_watchdog_schedule_ns(&wire->watchdog, wire->free_ns);
	return netesto_netem.dequeue(sch);
}

static void netesto_wire_reset(struct Qdisc *sch)
{
	struct netesto_wire *wire = netesto_wire_of(sch);

	netesto_netem.reset(sch);
	if (wire->queue)
		qdisc_reset(wire->queue);
	kfree_skb(wire->sending);
	wire->sending = NULL;
	qdisc_watchdog_cancel(&wire->watchdog);
}

static int netesto_wire_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	qdisc_watchdog_init(&netesto_wire_of(sch)->watchdog, sch);
	return netesto_netem.init(sch, opt, extack);
}

static void netesto_wire_destroy(struct Qdisc *sch)
{
	struct netesto_wire *wire = netesto_wire_of(sch);

	qdisc_watchdog_cancel(&wire->watchdog);
	kfree_skb(wire->sending);
	if (wire->queue)
		qdisc_put(wire->queue);
	netesto_netem.destroy(sch);
}

/* A qdisc below: the queue of a wire, or netem's own. */
static int netesto_wire_graft(struct Qdisc *sch, unsigned long arg, struct Qdisc *new,
			      struct Qdisc **old, struct netlink_ext_ack *extack)
{
	struct netesto_wire *wire = netesto_wire_of(sch);

	if (!wire->queue && !*netesto_rate_of(sch))
		return netesto_netem.cl_ops->graft(sch, arg, new, old, extack);
	*old = qdisc_replace(sch, new, &wire->queue);
	return 0;
}

static struct Qdisc *netesto_wire_leaf(struct Qdisc *sch, unsigned long arg)
{
	struct netesto_wire *wire = netesto_wire_of(sch);

	return wire->queue ? wire->queue : netesto_netem.cl_ops->leaf(sch, arg);
}

static int netesto_wire_class(struct Qdisc *sch, unsigned long cl, struct sk_buff *skb,
			      struct tcmsg *tcm)
{
	struct netesto_wire *wire = netesto_wire_of(sch);

	if (!wire->queue)
		return netesto_netem.cl_ops->dump(sch, cl, skb, tcm);
	tcm->tcm_handle |= TC_H_MIN(1);
	tcm->tcm_info = wire->queue->handle;
	return 0;
}

static int netesto_register_netem(struct Qdisc_ops *ops, size_t rate_at)
{
	netesto_netem = *ops;
	netesto_classes = *ops->cl_ops;
	netesto_rate_at = rate_at;
	netesto_wire_at = ALIGN(ops->priv_size, __alignof__(struct netesto_wire));
	ops->priv_size = netesto_wire_at + sizeof(struct netesto_wire);
	ops->enqueue = netesto_wire_enqueue;
	ops->dequeue = netesto_wire_dequeue;
	ops->reset = netesto_wire_reset;
	ops->init = netesto_wire_init;
	ops->destroy = netesto_wire_destroy;
	netesto_classes.graft = netesto_wire_graft;
	netesto_classes.leaf = netesto_wire_leaf;
	netesto_classes.dump = netesto_wire_class;
	ops->cl_ops = &netesto_classes;
	return register_qdisc(ops);
}

/* netem's own file says where its rate is. */
#define register_qdisc(ops) \
	netesto_register_netem(ops, offsetof(struct netem_sched_data, rate))
