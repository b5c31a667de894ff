/* See engine.h. A direction is a `way`; what its receiver tells its sender goes on the other way. */
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DUMMIES 3

#define HEAPS 5

enum { ON_WIRE, AT_PORT };
enum { FREE, FLYING, HANDING, REACTING, HOLDING, REPEATING };

/* Of a number that the receiver knows. */
enum slot_state { UNKNOWN, MISSING, GIVEN_UP, HELD, DONE };

struct slot {
	struct frame *held;
	uint64_t number;
	uint64_t gap;   /* the first number of its gap */
	int64_t since;  /* of the first of a gap: its notice; NEVER: a copy has come */
	uint8_t state;
};

/* A frame of which the sender keeps a copy. */
struct kept {
	struct frame *frame;
	uint64_t number;
	bool is_reported, is_ordered;
};

struct notice {
	struct notice *next;
	uint64_t first;
	int count;
};

/* Something on the wire. */
struct flight {
	struct flight *next;
	struct frame *frame; /* NULL: a control frame */
	uint64_t number;     /* of a frame; of a dummy the next number */
	int copy;
	bool is_numbered, is_dummy, is_ordered, is_lost;
	uint64_t cut;
	/* from the receiver of the other way */
	bool has_state, paused, told_news;
	uint64_t acknowledged; /* the number expected next */
	uint64_t reported;
	int count;
};

struct event {
	int64_t at;
	uint64_t order;
	uint64_t number;
	struct flight *flight;
	int32_t count;
	uint8_t kind, way;
};

struct heap {
	struct event *events;
	size_t used, room;
};

struct copying {
	uint64_t number;
	int sent, times;
};

struct way {
	struct settings set;
	struct counters count;
	uint64_t random[2];
	bool is_bad;            /* the state of the Gilbert model */
	struct {
		int bytes;
		int64_t ps;
	} timed[2];             /* the last sizes, and their times, on the wire and at the port */
	uint64_t cut;           /* raised when the cable is cut */
	int64_t last_arrival;

	/* sender: the queue */
	struct frame *head, *tail;
	int64_t queued_bytes, queued_frames;
	int64_t tokens, tokens_at; /* of a policer: bit-picoseconds would overflow, so bytes x 1e6 */

	/* sender: the wire */
	int64_t free_at;
	bool is_waking;         /* a FREE event is under way */

	/* sender: the protection */
	uint64_t next, acknowledged, oldest;
	struct kept *kept;      /* by number */
	struct copying *copying; /* a ring */
	size_t copying_first, copying_used, copying_room;
	int dummies_left;
	bool is_paused, is_stalled;
	int64_t paused_at, stalled_at;

	/* receiver */
	uint64_t expected, release;
	struct slot *slots;     /* by number */
	struct notice *notices, *last_notice;
	bool is_urgent, has_news, is_pausing;
	bool is_ordered;
	struct frame *port_head, *port_tail;
	bool is_handing;
};

struct link {
	struct way ways[2];
	struct hooks hooks;
	/* Events that may deliver a frame at once, those of each direction that need a flight for that, and
	 * arrivals at its port. */
	struct heap heaps[HEAPS];
	uint64_t order;
	int64_t now;
	bool is_protected, has_source;
	struct frame *frames;
	struct flight *flights;
	struct notice *unused_notices;
};

/* ---- memory ------------------------------------------------------------------------------------ */

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static struct frame *frame_new(struct link *link)
{
	struct frame *frame = link->frames;
	if (frame)
		link->frames = frame->next;
	else
		frame = need(malloc(sizeof *frame));
	memset(frame, 0, sizeof *frame);
	frame->references = 1;
	return frame;
}

static void frame_drop(struct link *link, struct frame *frame)
{
	if (--frame->references)
		return;
	if (link->hooks.release)
		link->hooks.release(link->hooks.context, frame->payload);
	frame->next = link->frames;
	link->frames = frame;
}

static struct flight *flight_new(struct link *link)
{
	struct flight *flight = link->flights;
	if (flight)
		link->flights = flight->next;
	else
		flight = need(malloc(sizeof *flight));
	memset(flight, 0, sizeof *flight);
	return flight;
}

static void flight_drop(struct link *link, struct flight *flight)
{
	if (flight->frame)
		frame_drop(link, flight->frame);
	flight->next = link->flights;
	link->flights = flight;
}

/* ---- events, in the order of their instants, and of their making --------------------------------- */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void heap_push(struct heap *heap, struct event event)
{
	if (heap->used == heap->room) {
		heap->room = heap->room ? 2 * heap->room : 64;
		heap->events = need(realloc(heap->events, heap->room * sizeof event));
	}
	size_t place = heap->used++;
	while (place) {
		size_t above = (place - 1) / 2;
		if (!is_before(&event, &heap->events[above]))
			break;
		heap->events[place] = heap->events[above];
		place = above;
	}
	heap->events[place] = event;
}

static struct event heap_pop(struct heap *heap)
{
	struct event first = heap->events[0], last = heap->events[--heap->used];
	size_t place = 0;
	for (;;) {
		size_t below = 2 * place + 1;
		if (below >= heap->used)
			break;
		if (below + 1 < heap->used && is_before(&heap->events[below + 1], &heap->events[below]))
			below++;
		if (!is_before(&heap->events[below], &last))
			break;
		heap->events[place] = heap->events[below];
		place = below;
	}
	if (heap->used)
		heap->events[place] = last;
	return first;
}

static void schedule(struct link *link, int way, int kind, int64_t at, struct flight *flight, uint64_t number, int count)
{
	bool flies = kind == FLYING && flight->frame, is_surely_new = flies && !flight->copy && !flight->is_lost;
	int heap = 1 + way;
	if (is_surely_new && flight->is_numbered && link->ways[way].set.rxbuffer < 0)
		heap = 3 + way;
	else if (flies || kind == HANDING || kind == HOLDING)
		heap = 0;
	struct event event = {at, link->order++, number, flight, count, (uint8_t)kind, (uint8_t)way};
	heap_push(&link->heaps[heap], event);
}

/* ---- chance -------------------------------------------------------------------------------------- */

/* xoroshiro128+ (Blackman and Vigna), seeded by splitmix64. */
static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t draw(struct way *way)
{
	uint64_t a = way->random[0], b = way->random[1], result = a + b;
	b ^= a;
	way->random[0] = ((a << 24) | (a >> 40)) ^ b ^ (b << 16);
	way->random[1] = (b << 37) | (b >> 27);
	return result;
}

/* From 0 to below 1. */
static double uniform(struct way *way)
{
	return (double)(draw(way) >> 11) * 0x1p-53;
}

/* As loss_gilb_ell in net/sched/sch_netem.c. */
static bool is_lost(struct link *link, int number, bool is_control)
{
	struct way *way = &link->ways[number];
	const struct settings *set = &way->set;
	if (link->hooks.loses)
		return link->hooks.loses(link->hooks.context, number, is_control);
	if (!set->is_gilbert)
		return set->loss > 0 && uniform(way) < set->loss;
	if (way->is_bad) {
		if (uniform(way) < set->recovery)
			way->is_bad = false;
		return uniform(way) < set->lost_bad;
	}
	if (uniform(way) < set->loss)
		way->is_bad = true;
	return uniform(way) < set->lost_good;
}

static int64_t delay_of(struct way *way)
{
	const struct settings *set = &way->set;
	if (!set->jitter_ps)
		return set->delay_ps;
	double by = 2 * uniform(way) - 1;
	if (set->is_normal)
		by = sqrt(-2 * log(1 - uniform(way))) * cos(M_PI * by);
	int64_t delay = set->delay_ps + llround(by * (double)set->jitter_ps);
	return delay > 0 ? delay : 0;
}

/* ---- the sender ---------------------------------------------------------------------------------- */

static int64_t time_of(struct way *way, int bytes, int at)
{
	/* What is policed is not sent one after the other. */
	if (!way->set.rate_bps || way->set.police_bytes)
		return 0;
	if (bytes != way->timed[at].bytes) {
		way->timed[at].bytes = bytes;
		way->timed[at].ps = (int64_t)((__int128)bytes * 8 * PS_PER_S / way->set.rate_bps);
	}
	return way->timed[at].ps;
}

static int64_t round_trip(const struct link *link, const struct way *way)
{
	int64_t trip = link->ways[0].set.delay_ps + link->ways[1].set.delay_ps + way->set.reaction_ps;
	return trip > PS_PER_NS * 1000 ? trip : PS_PER_NS * 1000;
}

/* Whether nothing that is sent arrives: then nothing is repeated, either. */
static bool is_dead(const struct settings *set)
{
	return set->is_down || set->loss >= 1 || (set->is_gilbert && set->lost_good >= 1);
}

static void mind_stall(struct link *link, struct way *way, bool is_stalled)
{
	if (is_stalled == way->is_stalled)
		return;
	if (is_stalled) {
		/* It waits for what dummies bring, also if those of the last frames were lost. */
		way->stalled_at = link->now;
		if (!way->dummies_left)
			way->dummies_left = 1;
	} else {
		way->count.stalled_ps += link->now - way->stalled_at;
	}
	way->is_stalled = is_stalled;
}

/* Whether a new frame may be sent; notes whether one waits for room for its copy, or for numbers. */
static bool can_send(struct link *link, int number)
{
	struct way *way = &link->ways[number];
	if (!way->head && link->has_source && !way->set.is_down) {
		void *payload = NULL;
		int bytes = link->hooks.more(link->hooks.context, number, &payload);
		if (bytes) {
			struct frame *frame = frame_new(link);
			*frame = (struct frame){payload, NULL, link->now, 0, way->count.given++, bytes, 1};
			way->head = way->tail = frame;
			way->queued_bytes += bytes;
			way->queued_frames++;
		}
	}
	if (!way->head || way->set.protect == OFF) {
		mind_stall(link, way, false);
		return way->head;
	}
	if (way->is_paused) {
		mind_stall(link, way, false);
		return false;
	}
	bool is_full = way->set.txbuffer >= 0 && way->count.tx_bytes + way->head->bytes > way->set.txbuffer;
	bool is_stalled = way->next - way->oldest >= WINDOW || (is_full && way->count.tx_bytes);
	/* While the wire is busy with a frame nothing waits longer for it. */
	mind_stall(link, way, is_stalled && (way->is_stalled || way->free_at <= link->now));
	return !is_stalled;
}

static bool has_unacknowledged(const struct way *way)
{
	return way->acknowledged < way->next;
}

/* Forget copies whose fate is sealed. */
static void advance_oldest(struct way *way)
{
	while (way->oldest < way->next) {
		const struct kept *kept = &way->kept[way->oldest % NUMBERS];
		if (kept->frame && kept->number == way->oldest)
			return;
		way->oldest++;
	}
}

static void forget_copy(struct link *link, struct way *way, uint64_t number)
{
	struct kept *kept = &way->kept[number % NUMBERS];
	if (!kept->frame || kept->number != number)
		return;
	way->count.tx_bytes -= kept->frame->bytes;
	way->count.copies--;
	frame_drop(link, kept->frame);
	kept->frame = NULL;
}

static void fly(struct link *link, int number, struct flight *flight, int bytes)
{
	struct way *way = &link->ways[number], *back = &link->ways[1 - number];
	bool is_control = !flight->frame;
	int on_wire = bytes + way->set.overhead + (link->is_protected && !is_control ? HEADER_BYTES : 0);
	int64_t done = link->now + time_of(way, on_wire, ON_WIRE);
	way->free_at = done;
	flight->cut = way->cut;
	flight->is_lost = is_lost(link, number, is_control) || way->set.is_down;
	if (!is_control) {
		way->count.wire_frames++;
		way->count.wire_lost += flight->is_lost;
	}
	if (back->slots) {
		flight->has_state = true;
		flight->acknowledged = back->expected;
		flight->paused = back->is_pausing;
		flight->told_news = back->has_news || back->is_urgent;
		back->has_news = back->is_urgent = false;
	}
	int64_t arrival = done + delay_of(way);
	/* A frame with a number never overtakes another. */
	if (link->is_protected && arrival < way->last_arrival)
		arrival = way->last_arrival;
	way->last_arrival = arrival;
	schedule(link, number, FLYING, arrival, flight, 0, 0);
}

static void told(struct link *link, int way, const char *kind, uint64_t number)
{
	if (link->hooks.sent)
		link->hooks.sent(link->hooks.context, way, kind, number, link->now);
}

static void send_control(struct link *link, int number, const char *kind, struct notice *notice)
{
	struct way *way = &link->ways[number];
	struct flight *flight = flight_new(link);
	way->count.controls++;
	if (notice) {
		flight->reported = notice->first;
		flight->count = notice->count;
	}
	if (*kind == 'd') {
		way->dummies_left--;
		way->count.dummies++;
		flight->is_dummy = true;
		flight->number = way->next;
		flight->is_ordered = way->kept[(way->next - 1) % NUMBERS].is_ordered;
	}
	told(link, number, kind, notice ? notice->first : *kind == 'd' ? way->next : link->ways[1 - number].expected);
	fly(link, number, flight, CONTROL_BYTES);
}

static void send_copy(struct link *link, int number)
{
	struct way *way = &link->ways[number];
	struct copying *copying = &way->copying[way->copying_first];
	struct kept *kept = &way->kept[copying->number % NUMBERS];
	struct flight *flight = flight_new(link);
	flight->frame = kept->frame;
	flight->frame->references++;
	flight->number = copying->number;
	flight->copy = ++copying->sent;
	flight->is_numbered = true;
	flight->is_ordered = kept->is_ordered;
	way->count.resent++;
	told(link, number, "copy", copying->number);
	fly(link, number, flight, kept->frame->bytes);
	if (copying->sent >= copying->times) {
		forget_copy(link, way, copying->number);
		advance_oldest(way);
		way->copying_first = (way->copying_first + 1) % way->copying_room;
		way->copying_used--;
	}
}

static void send_new(struct link *link, int number)
{
	struct way *way = &link->ways[number];
	const struct settings *set = &way->set;
	struct frame *frame = way->head;
	struct flight *flight = flight_new(link);
	way->head = frame->next;
	if (!way->head)
		way->tail = NULL;
	frame->next = NULL;
	way->queued_bytes -= frame->bytes;
	way->queued_frames--;
	bool is_late = set->mark_ps >= 0 && link->now - frame->given_ps > set->mark_ps;
	bool was_behind = set->mark_bytes >= 0 && frame->behind_bytes > set->mark_bytes;
	if ((is_late || was_behind) && link->hooks.mark && link->hooks.mark(link->hooks.context, number, frame))
		way->count.marks++;
	way->count.frames++;
	flight->frame = frame;
	if (set->protect != OFF) {
		flight->is_numbered = true;
		flight->is_ordered = set->protect == ORDERED;
		flight->number = way->next++;
		way->kept[flight->number % NUMBERS] = (struct kept){frame, flight->number, false, flight->is_ordered};
		frame->references++;
		way->count.tx_bytes += frame->bytes;
		way->count.copies++;
		way->dummies_left = DUMMIES;
	}
	told(link, number, "frame", flight->number);
	fly(link, number, flight, frame->bytes);
}

/* Send what comes next, if the wire is free; see that it goes on when the wire is free again. */
static void go_on(struct link *link, int number)
{
	struct way *way = &link->ways[number], *back = &link->ways[1 - number];
	while (!way->is_waking) {
		struct notice *notice = back->notices;
		bool is_idle = false;
		const char *kind = NULL;
		if (!notice && !back->is_urgent && !way->copying_used && !can_send(link, number)) {
			is_idle = true;
			if (way->kept && way->dummies_left && has_unacknowledged(way))
				kind = "dummy";
			else if (back->has_news)
				kind = "state";
			else if (!way->head || way->free_at <= link->now)
				return;
		}
		if (way->free_at > link->now) {
			way->is_waking = true;
			schedule(link, number, FREE, way->free_at, NULL, 0, 0);
			return;
		}
		if (notice) {
			back->notices = notice->next;
			if (!back->notices)
				back->last_notice = NULL;
			send_control(link, number, "notice", notice);
			notice->next = link->unused_notices;
			link->unused_notices = notice;
		} else if (back->is_urgent) {
			send_control(link, number, "state", NULL);
		} else if (way->copying_used) {
			send_copy(link, number);
		} else if (!is_idle) {
			send_new(link, number);
		} else {
			send_control(link, number, kind, NULL);
		}
	}
}

/* Numbers and acknowledgements are written with 16 bits and an era: the whole one that is nearest. */
static uint64_t whole(uint64_t near, uint64_t number)
{
	int64_t span = (int64_t)NUMBERS * ERAS;
	int64_t by = (int64_t)((number - near) % (uint64_t)span);
	if (by >= span / 2)
		by -= span;
	return near + (uint64_t)by;
}

/* The sender hears what the receiver has. */
static void hear(struct link *link, int number, const struct flight *flight)
{
	struct way *way = &link->ways[number];
	if (!way->kept)
		return;
	if (flight->count) {
		for (uint64_t each = flight->reported; each < flight->reported + (uint64_t)flight->count; each++) {
			struct kept *kept = &way->kept[each % NUMBERS];
			if (kept->frame && kept->number == each)
				kept->is_reported = true;
		}
		schedule(link, number, REACTING, link->now + way->set.reaction_ps, NULL, flight->reported, flight->count);
	}
	if (!flight->has_state)
		return;
	uint64_t acknowledged = whole(way->acknowledged, flight->acknowledged % (NUMBERS * ERAS));
	for (; way->acknowledged < acknowledged; way->acknowledged++) {
		struct kept *kept = &way->kept[way->acknowledged % NUMBERS];
		if (kept->frame && kept->number == way->acknowledged && !kept->is_reported)
			forget_copy(link, way, way->acknowledged);
	}
	advance_oldest(way);
	if (flight->paused != way->is_paused) {
		if (flight->paused)
			way->paused_at = link->now;
		else
			way->count.paused_ps += link->now - way->paused_at;
		way->is_paused = flight->paused;
	}
}

static void react(struct link *link, int number, uint64_t first, int count)
{
	struct way *way = &link->ways[number];
	for (uint64_t each = first; each < first + (uint64_t)count; each++) {
		const struct kept *kept = &way->kept[each % NUMBERS];
		if (!kept->frame || kept->number != each)
			continue;
		if (way->copying_used == way->copying_room) {
			size_t room = way->copying_room ? 2 * way->copying_room : 64;
			struct copying *larger = need(malloc(room * sizeof *larger));
			for (size_t n = 0; n < way->copying_used; n++)
				larger[n] = way->copying[(way->copying_first + n) % way->copying_room];
			free(way->copying);
			way->copying = larger;
			way->copying_room = room;
			way->copying_first = 0;
		}
		size_t last = (way->copying_first + way->copying_used++) % way->copying_room;
		way->copying[last] = (struct copying){each, 0, way->set.copies};
	}
}

/* ---- the receiver -------------------------------------------------------------------------------- */

static void count_received(struct link *link, int number, int64_t bytes)
{
	struct way *way = &link->ways[number];
	const struct settings *set = &way->set;
	way->count.rx_bytes += bytes;
	bool is_pausing = way->is_pausing;
	if (set->protect == OFF || set->pause_bytes < 0)
		is_pausing = false;
	else if (way->count.rx_bytes >= set->pause_bytes)
		is_pausing = true;
	else if (way->count.rx_bytes <= set->resume_bytes)
		is_pausing = false;
	if (is_pausing == way->is_pausing)
		return;
	way->is_pausing = is_pausing;
	way->is_urgent = true;
	way->count.pauses += is_pausing;
}

static void hand_on(struct link *link, int number, struct frame *frame)
{
	struct way *way = &link->ways[number];
	way->count.delivered++;
	link->hooks.deliver(link->hooks.context, number, frame, link->now);
	frame_drop(link, frame);
}

static int64_t port_ps(struct way *way, const struct frame *frame)
{
	return time_of(way, frame->bytes + way->set.overhead, AT_PORT);
}

/* The port's first frame has left it. */
static void hand_on_first(struct link *link, int number)
{
	struct way *way = &link->ways[number];
	struct frame *frame = way->port_head;
	int bytes = frame->bytes;
	way->port_head = frame->next;
	if (!way->port_head)
		way->port_tail = NULL;
	frame->next = NULL;
	hand_on(link, number, frame);
	count_received(link, number, -bytes);
}

/* See that the port's first frame leaves it. */
static void serve_port(struct link *link, int number)
{
	struct way *way = &link->ways[number];
	while (way->port_head && !way->is_handing) {
		int64_t takes = port_ps(way, way->port_head);
		if (takes) {
			way->is_handing = true;
			schedule(link, number, HANDING, link->now + takes, NULL, 0, 0);
		} else {
			hand_on_first(link, number);
		}
	}
}

static void to_port(struct link *link, int number, struct frame *frame)
{
	struct way *way = &link->ways[number];
	frame->next = NULL;
	if (way->port_tail)
		way->port_tail->next = frame;
	else
		way->port_head = frame;
	way->port_tail = frame;
}

/* Hand on what no gap holds back. */
static void release_held(struct link *link, int number)
{
	struct way *way = &link->ways[number];
	for (; way->release < way->expected; way->release++) {
		struct slot *slot = &way->slots[way->release % NUMBERS];
		if (slot->state == MISSING && way->is_ordered)
			return;
		if (slot->state == HELD) {
			slot->state = DONE;
			way->count.held--;
			to_port(link, number, slot->held);
			slot->held = NULL;
		}
	}
}

static void give_up(struct link *link, int number, uint64_t first, int count)
{
	struct way *way = &link->ways[number];
	for (uint64_t each = first; each < first + (uint64_t)count; each++) {
		struct slot *slot = &way->slots[each % NUMBERS];
		if (slot->number == each && slot->state == MISSING) {
			slot->state = GIVEN_UP;
			way->count.given_up++;
		}
	}
	release_held(link, number);
	serve_port(link, number);
}

static struct slot *open_slot(struct link *link, int number, uint64_t which)
{
	struct way *way = &link->ways[number];
	/* A receiver that holds all numbers gives its oldest gap up. */
	while (which - way->release >= NUMBERS)
		give_up(link, number, way->release, 1);
	struct slot *slot = &way->slots[which % NUMBERS];
	slot->number = which;
	slot->held = NULL;
	slot->gap = which;
	slot->since = NEVER;
	return slot;
}

/* The numbers up to `before` are missing: report them, and wait for the copies. */
static void see_gap(struct link *link, int number, uint64_t before)
{
	struct way *way = &link->ways[number];
	uint64_t first = way->expected, missing = before - first;
	int reported = missing < (uint64_t)way->set.notice ? (int)missing : way->set.notice;
	if (!missing)
		return;
	way->count.lost += missing;
	for (; way->expected < before; way->expected++) {
		struct slot *slot = open_slot(link, number, way->expected);
		bool is_reported = way->expected - first < (uint64_t)reported;
		slot->state = is_reported ? MISSING : GIVEN_UP;
		slot->gap = first;
		way->count.given_up += !is_reported;
	}
	way->has_news = true;
	if (!reported)
		return;
	way->slots[first % NUMBERS].since = link->now;
	struct notice *notice = link->unused_notices;
	if (notice)
		link->unused_notices = notice->next;
	else
		notice = need(malloc(sizeof *notice));
	*notice = (struct notice){NULL, first, reported};
	if (way->last_notice)
		way->last_notice->next = notice;
	else
		way->notices = notice;
	way->last_notice = notice;
	way->count.notices++;
	schedule(link, number, HOLDING, link->now + way->set.hold_ps, NULL, first, reported);
}

static void take_numbered(struct link *link, int number, struct flight *flight)
{
	struct way *way = &link->ways[number];
	const struct settings *set = &way->set;
	struct frame *frame = flight->frame;
	uint64_t which = whole(way->expected, flight->number % (NUMBERS * ERAS));
	way->is_ordered = flight->is_ordered;
	struct slot *slot = &way->slots[which % NUMBERS];
	if (which >= way->expected) {
		see_gap(link, number, which);
		slot = open_slot(link, number, which);
		way->expected = which + 1;
		way->has_news = true;
	} else {
		bool is_late = slot->state == GIVEN_UP && !way->is_ordered;
		if (slot->number != which || (slot->state != MISSING && !is_late)) {
			way->count.duplicates++;
			return;
		}
		way->count.given_up -= is_late;
		struct slot *first = &way->slots[slot->gap % NUMBERS];
		if (first->number == slot->gap && first->since != NEVER) {
			if (link->hooks.recovered)
				link->hooks.recovered(link->hooks.context, number, link->now - first->since);
			first->since = NEVER;
		}
	}
	bool waits = way->is_ordered && which != way->release;
	if (waits && set->rxbuffer >= 0 && way->count.rx_bytes + frame->bytes > set->rxbuffer) {
		way->count.rx_drops++;
		slot->state = DONE;
		return;
	}
	frame->references++;
	if (way->is_ordered && which >= way->release) {
		slot->state = HELD;
		slot->held = frame;
		way->count.held++;
	} else {
		slot->state = DONE;
		to_port(link, number, frame);
	}
	count_received(link, number, frame->bytes);
}

static void arrive(struct link *link, int number, struct flight *flight)
{
	struct way *way = &link->ways[number];
	bool is_lost = flight->is_lost || flight->cut != way->cut;
	if (is_lost) {
		if (flight->frame && link->hooks.lose)
			link->hooks.lose(link->hooks.context, number, flight->frame, flight->number, flight->copy, link->now);
		bool is_needed = flight->told_news || (flight->is_dummy && (way->is_stalled || way->is_paused));
		if (is_needed && !is_dead(&way->set))
			schedule(link, number, REPEATING, link->now + round_trip(link, way), NULL, flight->told_news, 0);
		flight_drop(link, flight);
		return;
	}
	hear(link, 1 - number, flight);
	if (flight->is_dummy) {
		way->is_ordered = flight->is_ordered;
		see_gap(link, number, whole(way->expected, flight->number % (NUMBERS * ERAS)));
	}
	if (flight->frame) {
		if (way->set.corrupt > 0 && uniform(way) < way->set.corrupt && link->hooks.corrupt)
			link->hooks.corrupt(link->hooks.context, number, flight->frame, draw(way));
		if (flight->is_numbered) {
			take_numbered(link, number, flight);
		} else if (way->slots && (way->port_head || way->count.held)) {
			flight->frame->references++;
			to_port(link, number, flight->frame);
			count_received(link, number, flight->frame->bytes);
		} else {
			flight->frame->references++;
			hand_on(link, number, flight->frame);
		}
	}
	if (way->slots) {
		release_held(link, number);
		serve_port(link, number);
	}
	flight_drop(link, flight);
	go_on(link, 0);
	go_on(link, 1);
}

/* ---- what the caller does ------------------------------------------------------------------------ */

static void happen(struct link *link, struct event *event)
{
	struct way *way = &link->ways[event->way];
	switch (event->kind) {
	case FREE:
		way->is_waking = false;
		go_on(link, event->way);
		return;
	case FLYING:
		arrive(link, event->way, event->flight);
		return;
	case HANDING:
		way->is_handing = false;
		if (way->port_head)
			hand_on_first(link, event->way);
		serve_port(link, event->way);
		break;
	case REACTING:
		react(link, event->way, event->number, event->count);
		break;
	case HOLDING:
		give_up(link, event->way, event->number, event->count);
		break;
	default:
		if (event->number)
			link->ways[1 - event->way].has_news = true;
		if (!way->dummies_left)
			way->dummies_left = 1;
	}
	go_on(link, 0);
	go_on(link, 1);
}

static struct heap *first_heap(struct link *link)
{
	struct heap *first = NULL;
	for (int each = 0; each < HEAPS; each++) {
		struct heap *heap = &link->heaps[each];
		if (heap->used && (!first || is_before(&heap->events[0], &first->events[0])))
			first = heap;
	}
	return first;
}

int64_t link_next(const struct link *link)
{
	int64_t next = NEVER;
	for (int each = 0; each < HEAPS; each++)
		if (link->heaps[each].used && link->heaps[each].events[0].at < next)
			next = link->heaps[each].events[0].at;
	return next;
}

/* The shortest flight in a direction. */
static int64_t flight_ps(const struct settings *set)
{
	int64_t least = set->is_normal ? 0 : set->delay_ps - set->jitter_ps;
	return least > 0 ? least : 0;
}

int64_t link_wake(const struct link *link)
{
	int64_t flights[2] = {flight_ps(&link->ways[0].set), flight_ps(&link->ways[1].set)};
	/* What the receiver of one direction tells lets the sender of the other go on. */
	if (link->is_protected)
		flights[0] = flights[1] = flights[0] < flights[1] ? flights[0] : flights[1];
	int64_t wake = link->heaps[0].used ? link->heaps[0].events[0].at : NEVER;
	for (int way = 0; way < 2; way++) {
		const struct heap *inner = &link->heaps[1 + way];
		if (inner->used && inner->events[0].at + flights[way] < wake)
			wake = inner->events[0].at + flights[way];
		/* Its port is left by what comes first first. */
		const struct heap *arrivals = &link->heaps[3 + way];
		if (!arrivals->used)
			continue;
		const struct event *first = &arrivals->events[0];
		int64_t leaves = first->at + port_ps((struct way *)&link->ways[way], first->flight->frame);
		if (leaves < wake)
			wake = leaves;
	}
	return wake;
}

void link_run(struct link *link, int64_t now)
{
	struct heap *heap;
	while ((heap = first_heap(link)) && heap->events[0].at <= now) {
		struct event event = heap_pop(heap);
		link->now = event.at;
		happen(link, &event);
	}
	link->now = now;
}

static bool is_policed(struct link *link, struct way *way, int bytes)
{
	const struct settings *set = &way->set;
	if (!set->police_bytes || !set->rate_bps)
		return false;
	int64_t most = set->police_bytes * 1000000;
	int64_t since = link->now - way->tokens_at;
	__int128 more = (__int128)since * set->rate_bps / (8 * 1000000);
	way->tokens = more > most - way->tokens ? most : way->tokens + (int64_t)more;
	way->tokens_at = link->now;
	if (way->tokens < (int64_t)bytes * 1000000)
		return true;
	way->tokens -= (int64_t)bytes * 1000000;
	return false;
}

void link_give(struct link *link, int number, void *payload, int bytes, int64_t now)
{
	link_run(link, now);
	struct way *way = &link->ways[number];
	const struct settings *set = &way->set;
	struct frame *frame = frame_new(link);
	int64_t sending = way->free_at > now && set->rate_bps ? (int64_t)((__int128)(way->free_at - now) * set->rate_bps / (8 * PS_PER_S)) : 0;
	*frame = (struct frame){payload, NULL, now, way->queued_bytes + sending, way->count.given++, bytes, 1};
	bool is_full = (set->limit_bytes >= 0 && way->queued_bytes + bytes > set->limit_bytes) ||
		       (set->limit_packets >= 0 && way->queued_frames + 1 > set->limit_packets);
	bool is_free = !way->head && way->free_at <= now && !way->copying_used && !way->is_paused;
	bool is_long = set->mtu && bytes > set->mtu + LINK_HEADER_BYTES;
	if (set->is_down || is_long || is_policed(link, way, bytes) || (is_full && !is_free)) {
		way->count.drops++;
		if (link->hooks.drop)
			link->hooks.drop(link->hooks.context, number, frame, now);
		frame_drop(link, frame);
		return;
	}
	if (way->tail)
		way->tail->next = frame;
	else
		way->head = frame;
	way->tail = frame;
	way->queued_bytes += bytes;
	way->queued_frames++;
	go_on(link, number);
}

static void cut(struct link *link, int number)
{
	struct way *way = &link->ways[number];
	way->cut++;
	while (way->head) {
		struct frame *frame = way->head;
		way->head = frame->next;
		way->count.drops++;
		if (link->hooks.drop)
			link->hooks.drop(link->hooks.context, number, frame, link->now);
		frame_drop(link, frame);
	}
	way->tail = NULL;
	way->queued_bytes = way->queued_frames = 0;
}

/* A direction that is protected for the first time gets its rings. */
static void protect(struct link *link, struct way *way)
{
	link->is_protected = link->ways[0].set.protect != OFF || link->ways[1].set.protect != OFF;
	if (way->set.protect == OFF || way->kept)
		return;
	way->kept = need(calloc(NUMBERS, sizeof *way->kept));
	way->slots = need(calloc(NUMBERS, sizeof *way->slots));
}

void link_set(struct link *link, int number, const struct settings *set, int64_t now)
{
	link_run(link, now);
	struct way *way = &link->ways[number];
	bool is_cut = set->is_down && !way->set.is_down;
	if (set->police_bytes != way->set.police_bytes || set->rate_bps != way->set.rate_bps) {
		way->tokens = set->police_bytes * 1000000;
		way->tokens_at = now;
	}
	way->set = *set;
	way->timed[ON_WIRE].bytes = way->timed[AT_PORT].bytes = -1;
	if (set->rate_bps == 0 && way->free_at > now)
		way->free_at = now;
	if (set->is_gilbert == false)
		way->is_bad = false;
	protect(link, way);
	if (is_cut)
		cut(link, number);
	for (int each = 0; each < 2; each++) {
		struct way *one = &link->ways[each];
		if (!one->slots)
			continue;
		one->has_news = true;
		one->dummies_left = DUMMIES;
		count_received(link, each, 0);
	}
	go_on(link, 0);
	go_on(link, 1);
}

void link_more(struct link *link, int64_t now)
{
	link_run(link, now);
	link->has_source = true;
	go_on(link, 0);
	go_on(link, 1);
}

struct link *link_new(const struct settings ways[2], uint64_t seed, const struct hooks *hooks)
{
	struct link *link = need(calloc(1, sizeof *link));
	link->hooks = *hooks;
	for (int each = 0; each < 2; each++) {
		struct way *way = &link->ways[each];
		way->set = ways[each];
		way->timed[ON_WIRE].bytes = way->timed[AT_PORT].bytes = -1;
		way->random[0] = splitmix(&seed);
		way->random[1] = splitmix(&seed);
		way->tokens = way->set.police_bytes * 1000000;
		protect(link, way);
	}
	return link;
}

static void drop_list(struct link *link, struct frame *frame)
{
	while (frame) {
		struct frame *next = frame->next;
		frame_drop(link, frame);
		frame = next;
	}
}

void link_free(struct link *link)
{
	for (struct heap *heap; (heap = first_heap(link));) {
		struct event event = heap_pop(heap);
		if (event.flight)
			flight_drop(link, event.flight);
	}
	for (int each = 0; each < 2; each++) {
		struct way *way = &link->ways[each];
		drop_list(link, way->head);
		drop_list(link, way->port_head);
		for (int n = 0; way->kept && n < NUMBERS; n++) {
			if (way->kept[n].frame)
				frame_drop(link, way->kept[n].frame);
			if (way->slots[n].state == HELD)
				frame_drop(link, way->slots[n].held);
		}
		for (struct notice *notice = way->notices, *next; notice; notice = next) {
			next = notice->next;
			free(notice);
		}
		free(way->kept);
		free(way->slots);
		free(way->copying);
	}
	for (struct notice *notice = link->unused_notices, *next; notice; notice = next) {
		next = notice->next;
		free(notice);
	}
	for (struct frame *frame = link->frames, *next; frame; frame = next) {
		next = frame->next;
		free(frame);
	}
	for (struct flight *flight = link->flights, *next; flight; flight = next) {
		next = flight->next;
		free(flight);
	}
	for (int each = 0; each < HEAPS; each++)
		free(link->heaps[each].events);
	free(link);
}

const struct settings *link_settings(const struct link *link, int way)
{
	return &link->ways[way].set;
}

struct counters link_counters(const struct link *link, int number, int64_t now)
{
	const struct way *way = &link->ways[number];
	struct counters counted = way->count;
	if (way->is_paused)
		counted.paused_ps += now - way->paused_at;
	if (way->is_stalled)
		counted.stalled_ps += now - way->stalled_at;
	return counted;
}

struct numbers link_numbers(const struct link *link, int number)
{
	const struct way *way = &link->ways[number];
	return (struct numbers){
		way->next, way->acknowledged, way->expected, way->queued_bytes, way->queued_frames, way->is_paused, way->is_stalled,
	};
}
