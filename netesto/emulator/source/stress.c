/* The engine in virtual time, with a source that always has a frame. */
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REST_FRAMES 100000

struct test {
	uint64_t frames, given, delivered;
	int size;
	int64_t first, last;
	/* The times of recoveries. */
	int64_t *recoveries;
	size_t recovered, room;
	FILE *losses;
	uint64_t written, left_out;
};

static int more(void *context, int way, void **payload)
{
	struct test *test = context;
	(void)payload;
	if (way || test->given == test->frames)
		return 0;
	test->given++;
	return test->size;
}

static void deliver(void *context, int way, const struct frame *frame, int64_t now)
{
	struct test *test = context;
	(void)way;
	(void)frame;
	if (!test->delivered++)
		test->first = now;
	test->last = now;
}

static void lose(void *context, int way, const struct frame *frame, uint64_t number, int copy, int64_t now)
{
	struct test *test = context;
	(void)way;
	if (!test->losses)
		return;
	if (test->written == LOST_MOST) {
		test->left_out++;
		return;
	}
	test->written++;
	fprintf(test->losses, "%.12f,%llu,%d,%d,,,,,,,\n", (double)now / (double)PS_PER_S, (unsigned long long)number, copy,
		frame->bytes);
}

static void recovered(void *context, int way, int64_t after)
{
	struct test *test = context;
	(void)way;
	if (test->recovered == test->room) {
		test->room = test->room ? 2 * test->room : 1024;
		test->recoveries = realloc(test->recoveries, test->room * sizeof after);
		if (!test->recoveries)
			abort();
	}
	test->recoveries[test->recovered++] = after;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static double clock_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A new file: of several tests of a link in one experiment the second fails. */
static FILE *create(const char *path, const char *header)
{
	FILE *file = fopen(path, "wx");
	if (!file)
		die("%s: %s", path, strerror(errno));
	fputs(header, file);
	return file;
}

struct range {
	int64_t least, most;
};

static void see(struct range *range, int64_t value, bool is_settled)
{
	if (is_settled && value < range->least)
		range->least = value;
	if (value > range->most)
		range->most = value;
}

int stress(int count, char **words)
{
	struct settings ways[2] = WAYS_DEFAULT;
	struct test test = {.size = 1518};
	uint64_t seed = 1;
	int64_t interval = 0;
	FILE *states = NULL;
	for (int n = 0; n < count; n++) {
		const char *text;
		if (settings_take(ways, words[n]))
			continue;
		if ((text = value_of(words[n], "frames")))
			test.frames = (uint64_t)integer_of(words[n], text);
		else if ((text = value_of(words[n], "size")))
			test.size = (int)integer_of(words[n], text);
		else if ((text = value_of(words[n], "seed")))
			seed = (uint64_t)integer_of(words[n], text);
		else if ((text = value_of(words[n], "interval")))
			interval = integer_of(words[n], text);
		else if ((text = value_of(words[n], "states")))
			states = create(text, "");
		else if ((text = value_of(words[n], "losses")))
			test.losses = create(text, LOSSES_HEADER);
		else
			die("%s: no such option", words[n]);
	}
	if (!ways[0].rate_bps)
		die("to.rate: required");
	struct hooks hooks = {.context = &test, .deliver = deliver, .lose = lose, .more = more, .recovered = recovered};
	struct link *link = link_new(ways, seed, &hooks);
	struct range tx = {INT64_MAX, 0}, rx = {INT64_MAX, 0};
	uint64_t points = 200, point = 1, rest = REST_FRAMES;
	int64_t now = 0, due = interval;
	double begun = clock_s();
	link_more(link, 0);
	for (int64_t next; (next = link_next(link)) != NEVER;) {
		/* What held until this instant. */
		if (next > now && test.given < test.frames) {
			struct counters counters = link_counters(link, 0, now);
			bool is_settled = test.given >= test.frames / 10;
			see(&tx, counters.tx_bytes, is_settled);
			see(&rx, counters.rx_bytes, is_settled);
		}
		if (states && interval) {
			for (; due < next && test.given < test.frames; due += interval)
				write_state(states, link, 0, due, (double)due / (double)PS_PER_S);
		} else if (states && test.given * points >= point * test.frames && point < points) {
			write_state(states, link, 0, now, (double)now / (double)PS_PER_S);
			point++;
		}
		now = next;
		link_run(link, now);
		/* In simulated time all others wait for one that computes. */
		if (test.given >= rest) {
			rest += REST_FRAMES;
			clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 1000}, NULL);
		}
	}
	if (states)
		write_state(states, link, 0, now, (double)now / (double)PS_PER_S);
	struct counters counters = link_counters(link, 0, now);
	qsort(test.recoveries, test.recovered, sizeof *test.recoveries, compare);
#define U(value) (unsigned long long)(value)
	double seconds = (double)(test.last - test.first) / (double)PS_PER_S;
	double bits = (double)test.delivered * 8 * (test.size + ways[0].overhead);
	printf("{\"event\":\"result\",\"speed_bps\":%.6f,\"elapsed_s\":%.6f,", seconds > 0 ? bits / seconds : 0.0, clock_s() - begun);
	const struct settings *set = &ways[0];
	static const char *const MODES[] = {"off", "ordered", "nonblocking"};
	printf("\"protect\":\"%s\",\"copies\":%d,\"size\":%d,\"overhead\":%d,", MODES[set->protect],
	       set->protect == OFF ? 0 : set->copies, test.size, set->overhead);
	/* By the Gilbert model copies are lost together: nobody expects a power. */
	if (!set->is_gilbert)
		printf("\"loss\":%.12g,", set->loss);
	printf("\"given\":%llu,\"delivered\":%llu,\"wire_frames\":%llu,\"wire_lost\":%llu,\"seconds\":%.12f", U(test.given),
	       U(test.delivered), U(counters.wire_frames), U(counters.wire_lost), seconds);
	printf(",\"tx_min\":%lld,\"tx_max\":%lld,\"rx_min\":%lld,\"rx_max\":%lld", (long long)(tx.least == INT64_MAX ? 0 : tx.least),
	       (long long)tx.most, (long long)(rx.least == INT64_MAX ? 0 : rx.least), (long long)rx.most);
	if (test.recovered)
		printf(",\"recovery_p50_us\":%.6f,\"recovery_max_us\":%.6f", (double)test.recoveries[(test.recovered - 1) / 2] / 1e6,
		       (double)test.recoveries[test.recovered - 1] / 1e6);
	printf(",\"recoveries\":%llu,\"rx_drops\":%llu,\"given_up\":%llu,\"duplicates\":%llu,\"losses_left_out\":%llu}\n", U(test.recovered),
	       U(counters.rx_drops), U(counters.given_up), U(counters.duplicates), U(test.left_out));
#undef U
	if ((states && fclose(states)) || (test.losses && fclose(test.losses)))
		die("files cannot be written");
	link_free(link);
	free(test.recoveries);
	return 0;
}
