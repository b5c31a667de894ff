/* netesto-link: the engine of engine.h as a program.
 *
 *     netesto-link stress frames=… size=… seed=… to.rate=… from.delay=… …   a source that always has a frame
 *     netesto-link replay …                                                 frames and losses as standard input says
 *     netesto-link carry tap=…,… control=PATH seed=… …                       frames between two TAP devices
 *     netesto-link tell CONTROL set|state|record …                            one that carries
 *     netesto-link version
 *
 * Options are words, `name=value`. Those of a direction begin with its name: `to.` what the first end sends,
 * `from.` what the second sends. Values are integers, times in picoseconds, but for probabilities.
 */
#ifndef NETESTO_PROGRAM_H
#define NETESTO_PROGRAM_H

#include "engine.h"

#include <stdio.h>

#define VERSION "1"
#define WAYS_DEFAULT {SETTINGS_DEFAULT, SETTINGS_DEFAULT}
#define SETTINGS_DEFAULT \
	{.limit_bytes = NO_LIMIT, .limit_packets = NO_LIMIT, .mark_ps = NO_LIMIT, .mark_bytes = NO_LIMIT, .copies = 2, \
	 .notice = 5, .pause_bytes = NO_LIMIT, .resume_bytes = NO_LIMIT, .txbuffer = NO_LIMIT, .rxbuffer = NO_LIMIT}
#define LOST_MOST 1000000

/* The most words of a line, and its size. */
#define WORDS_MOST 128
#define LINE_BYTES 8192

extern const char *const WAY_NAMES[2];

/* Takes a word `to.name=value` or `from.name=value`; false if it is none. Ends the program if its value is bad. */
bool settings_take(struct settings ways[2], const char *word);
/* The value of `name=…` in a word, or NULL. */
const char *value_of(const char *word, const char *name);
int64_t integer_of(const char *word, const char *text);
/* Ends the program with a message on standard error. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* One line of link.TO.jsonl, as docs/data-formats.md describes it. */
void write_state(FILE *, const struct link *, int way, int64_t now, double time_s);

/* All settings of a direction, as words in a line. */
void write_settings(FILE *, const struct settings *);

int stress(int count, char **words);
int replay(int count, char **words);
int carry(int count, char **words);
int tell(int count, char **words);

/* One line of losses.TO.csv: `payload` is the frame as it was, or NULL. */
#define LOSSES_HEADER "time_s,number,copy,bytes,protocol,source,sport,destination,dport,tcp_seq,payload\n"

#endif
