/* The engine of a link: two directions, each with a queue, a rate, losses, a delay, and optionally the
 * protection of LinkGuardian (Joshi et al., SIGCOMM 2023), frame by frame.
 *
 *     give ─ queue ─ wire (one frame at a time, losses) ─ delay ─ receiver (numbers, gaps) ─ port ─ deliver
 *             copies ─┘                          notices, acknowledgements: on the other direction ─┘
 *
 * It is pure: it knows no clock and no files. Its caller gives frames and instants, and hears by `hooks`
 * what becomes of them. Time is in picoseconds: at 400 Gbit/s a byte takes 20. The same settings, seed
 * and frames give the same result.
 *
 * Control frames of an idle direction never end: those that would tell the other end nothing new are left
 * out, and one that told it something and was lost is followed by another.
 */
#ifndef NETESTO_ENGINE_H
#define NETESTO_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#define PS_PER_NS INT64_C(1000)
#define PS_PER_S INT64_C(1000000000000)
#define NEVER INT64_MAX
#define NO_LIMIT (-1)

/* A frame's number (or the acknowledgement of one) on a protected link, and a control frame. */
#define HEADER_BYTES 3
#define CONTROL_BYTES 64

/* What a frame has beside what its MTU counts: the header of Ethernet, and two VLAN tags. */
#define LINK_HEADER_BYTES (14 + 8)

/* Numbers have 16 bits, and an era bit that tells wraps apart. */
#define NUMBERS 65536
#define ERAS 2
#define WINDOW 32768

enum mode { OFF, ORDERED, NONBLOCKING };

/* What one direction is like. A limit of NO_LIMIT is none. */
struct settings {
	int64_t rate_bps; /* 0: none */
	int64_t delay_ps, jitter_ps;
	bool is_normal;                       /* the jitter's distribution; else uniform */
	bool is_gilbert;                      /* as tc-netem(8): p, r, 1-h, 1-k */
	double loss, recovery, lost_bad, lost_good;
	double corrupt;
	int64_t limit_bytes, limit_packets;
	int64_t mark_ps, mark_bytes;
	int64_t police_bytes;
	bool is_down;
	int mtu; /* longer frames are dropped; 0: none is */
	int overhead;
	enum mode protect;
	int copies, notice;
	int64_t reaction_ps, hold_ps;
	int64_t pause_bytes, resume_bytes, txbuffer, rxbuffer;
};

struct frame {
	void *payload; /* the caller's */
	struct frame *next;
	int64_t given_ps, behind_bytes;
	uint64_t number; /* how many were given before, of this direction */
	int bytes, references;
};

struct counters {
	/* the sender */
	uint64_t given, drops, marks, frames, resent, dummies, controls;
	int64_t tx_bytes, copies;
	int64_t paused_ps, stalled_ps;
	/* the wire: of frames and copies */
	uint64_t wire_frames, wire_lost;
	/* the receiver */
	uint64_t delivered, lost, notices, given_up, duplicates, rx_drops, pauses;
	int64_t held, rx_bytes;
};

/* What the caller hears. `way` is the direction, 0 or 1. None may call the engine. */
struct hooks {
	void *context;
	void (*deliver)(void *context, int way, const struct frame *, int64_t now);
	/* The queue was full, or the link down. */
	void (*drop)(void *context, int way, const struct frame *, int64_t now);
	/* Lost on the wire: `copy` is 0 for the first sending. */
	void (*lose)(void *context, int way, const struct frame *, uint64_t number, int copy, int64_t now);
	/* Mark it with CE; whether it can be. */
	bool (*mark)(void *context, int way, const struct frame *);
	/* Change one bit of it. */
	void (*corrupt)(void *context, int way, const struct frame *, uint64_t random);
	/* It is not needed any more. */
	void (*release)(void *context, void *payload);
	/* The next frame of a source that always has one, or 0: its bytes and its payload. */
	int (*more)(void *context, int way, void **payload);
	/* A gap's first copy has come, so long after its notice. */
	void (*recovered)(void *context, int way, int64_t after_ps);
	/* Instead of chance, for tests: whether a frame on the wire is lost. */
	bool (*loses)(void *context, int way, bool is_control);
	/* A frame begins to be sent, for tests; `kind`: "frame", "copy", "notice", "state", "dummy". */
	void (*sent)(void *context, int way, const char *kind, uint64_t number, int64_t now);
};

struct link;

struct link *link_new(const struct settings ways[2], uint64_t seed, const struct hooks *);
void link_free(struct link *);

/* All that happens up to and at an instant. */
void link_run(struct link *, int64_t now);
/* A frame arrives at the sending end of a direction. `now` never goes back. */
void link_give(struct link *, int way, void *payload, int bytes, int64_t now);
/* Other settings of a direction; frames under way keep what they were sent with. */
void link_set(struct link *, int way, const struct settings *, int64_t now);
/* The source of `hooks.more` has frames again. */
void link_more(struct link *, int64_t now);

/* When link_run must be called at the latest, so that no frame is delivered late. */
int64_t link_wake(const struct link *);
/* When anything happens next. */
int64_t link_next(const struct link *);

const struct settings *link_settings(const struct link *, int way);
/* Times that go on are counted up to `now`. */
struct counters link_counters(const struct link *, int way, int64_t now);

/* Where both ends of a direction are. */
struct numbers {
	uint64_t next, acknowledged, expected;
	int64_t queued_bytes, queued_frames;
	bool is_paused, is_stalled;
};
struct numbers link_numbers(const struct link *, int way);

#endif
