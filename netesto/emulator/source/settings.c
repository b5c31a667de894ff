/* The settings of both directions as words, and their state as JSON. */
#include "program.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const WAY_NAMES[2] = {"to", "from"};

enum form { INT64, INT, BOOL, PROBABILITY, MODE };

#define MEMBER(member) offsetof(struct settings, member)

static const struct {
	const char *name;
	enum form form;
	size_t offset;
} SETTINGS[] = {
	{"rate", INT64, MEMBER(rate_bps)},
	{"delay", INT64, MEMBER(delay_ps)},
	{"jitter", INT64, MEMBER(jitter_ps)},
	{"normal", BOOL, MEMBER(is_normal)},
	{"gilbert", BOOL, MEMBER(is_gilbert)},
	{"loss", PROBABILITY, MEMBER(loss)},
	{"recovery", PROBABILITY, MEMBER(recovery)},
	{"lost_bad", PROBABILITY, MEMBER(lost_bad)},
	{"lost_good", PROBABILITY, MEMBER(lost_good)},
	{"corrupt", PROBABILITY, MEMBER(corrupt)},
	{"limit_bytes", INT64, MEMBER(limit_bytes)},
	{"limit_packets", INT64, MEMBER(limit_packets)},
	{"mark", INT64, MEMBER(mark_ps)},
	{"mark_bytes", INT64, MEMBER(mark_bytes)},
	{"police", INT64, MEMBER(police_bytes)},
	{"down", BOOL, MEMBER(is_down)},
	{"mtu", INT, MEMBER(mtu)},
	{"overhead", INT, MEMBER(overhead)},
	{"protect", MODE, MEMBER(protect)},
	{"copies", INT, MEMBER(copies)},
	{"notice", INT, MEMBER(notice)},
	{"reaction", INT64, MEMBER(reaction_ps)},
	{"hold", INT64, MEMBER(hold_ps)},
	{"pause", INT64, MEMBER(pause_bytes)},
	{"resume", INT64, MEMBER(resume_bytes)},
	{"txbuffer", INT64, MEMBER(txbuffer)},
	{"rxbuffer", INT64, MEMBER(rxbuffer)},
};

static const char *const MODES[] = {"off", "ordered", "nonblocking"};

void die(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	fputs("netesto-link: ", stderr);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	va_end(values);
	exit(2);
}

const char *value_of(const char *word, const char *name)
{
	size_t length = strlen(name);
	return !strncmp(word, name, length) && word[length] == '=' ? word + length + 1 : NULL;
}

int64_t integer_of(const char *word, const char *text)
{
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 10);
	if (errno || end == text || *end)
		die("%s: not an integer", word);
	return value;
}

static void put(void *where, enum form form, const char *word, const char *text)
{
	char *end;
	switch (form) {
	case INT64:
		*(int64_t *)where = integer_of(word, text);
		return;
	case INT:
		*(int *)where = (int)integer_of(word, text);
		return;
	case BOOL:
		*(bool *)where = integer_of(word, text);
		return;
	case PROBABILITY:
		*(double *)where = strtod(text, &end);
		if (end == text || *end || *(double *)where < 0 || *(double *)where > 1)
			die("%s: not a probability", word);
		return;
	case MODE:
		for (int mode = OFF; mode <= NONBLOCKING; mode++)
			if (!strcmp(text, MODES[mode])) {
				*(enum mode *)where = (enum mode)mode;
				return;
			}
		die("%s: off, ordered or nonblocking", word);
	}
}

bool settings_take(struct settings ways[2], const char *word)
{
	for (int way = 0; way < 2; way++) {
		size_t length = strlen(WAY_NAMES[way]);
		if (strncmp(word, WAY_NAMES[way], length) || word[length] != '.')
			continue;
		for (size_t n = 0; n < sizeof SETTINGS / sizeof *SETTINGS; n++) {
			const char *text = value_of(word + length + 1, SETTINGS[n].name);
			if (text) {
				put((char *)&ways[way] + SETTINGS[n].offset, SETTINGS[n].form, word, text);
				return true;
			}
		}
	}
	return false;
}

void write_settings(FILE *file, const struct settings *set)
{
	fputs("settings", file);
	for (size_t n = 0; n < sizeof SETTINGS / sizeof *SETTINGS; n++) {
		const void *value = (const char *)set + SETTINGS[n].offset;
		fprintf(file, " %s=", SETTINGS[n].name);
		switch (SETTINGS[n].form) {
		case INT64:
			fprintf(file, "%lld", (long long)*(const int64_t *)value);
			break;
		case INT:
			fprintf(file, "%d", *(const int *)value);
			break;
		case BOOL:
			fprintf(file, "%d", *(const bool *)value);
			break;
		case PROBABILITY:
			fprintf(file, "%.9g", *(const double *)value);
			break;
		case MODE:
			fputs(MODES[*(const enum mode *)value], file);
		}
	}
	putc('\n', file);
}

void write_state(FILE *file, const struct link *link, int way, int64_t now, double time_s)
{
	struct counters count = link_counters(link, way, now);
	struct numbers at = link_numbers(link, way);
#define U(value) (unsigned long long)(value)
	fprintf(file, "{\"time_s\":%.9f,\"next\":%llu,\"era\":%llu,\"acknowledged\":%llu,\"acknowledged_era\":%llu",
		time_s, U(at.next % NUMBERS), U(at.next / NUMBERS % ERAS),
		U(at.acknowledged % NUMBERS), U(at.acknowledged / NUMBERS % ERAS));
	fprintf(file, ",\"copies\":%lld,\"tx_bytes\":%lld,\"frames\":%llu,\"resent\":%llu,\"dummies\":%llu",
		(long long)count.copies, (long long)count.tx_bytes, U(count.frames), U(count.resent), U(count.dummies));
	fprintf(file, ",\"paused_s\":%.9f,\"stalled_s\":%.9f,\"marks\":%llu,\"drops\":%llu",
		(double)count.paused_ps / (double)PS_PER_S, (double)count.stalled_ps / (double)PS_PER_S, U(count.marks),
		U(count.drops));
	fprintf(file, ",\"expected\":%llu,\"expected_era\":%llu,\"lost\":%llu,\"loss_rate\":%.6e,\"notices\":%llu",
		U(at.expected % NUMBERS), U(at.expected / NUMBERS % ERAS), U(count.lost),
		at.expected ? (double)count.lost / (double)at.expected : 0.0, U(count.notices));
	fprintf(file, ",\"given_up\":%llu,\"duplicates\":%llu,\"held\":%lld,\"rx_bytes\":%lld,\"rx_drops\":%llu,\"pauses\":%llu",
		U(count.given_up), U(count.duplicates), (long long)count.held, (long long)count.rx_bytes, U(count.rx_drops),
		U(count.pauses));
	const struct settings *set = link_settings(link, way);
	double mean = set->loss;
	if (set->is_gilbert) {
		double bad = set->loss + set->recovery > 0 ? set->loss / (set->loss + set->recovery) : 0;
		mean = bad * set->lost_bad + (1 - bad) * set->lost_good;
	}
	fprintf(file, ",\"rate_bps\":%lld,\"queued_bytes\":%lld,\"queued_frames\":%lld", (long long)set->rate_bps,
		(long long)at.queued_bytes, (long long)at.queued_frames);
	fprintf(file, ",\"protect\":\"%s\",\"loss_set\":%.9g", MODES[set->protect], mean);
	fprintf(file, ",\"wire_frames\":%llu,\"wire_lost\":%llu,\"delivered\":%llu}\n", U(count.wire_frames),
		U(count.wire_lost), U(count.delivered));
#undef U
}
