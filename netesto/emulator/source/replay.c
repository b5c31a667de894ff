/* The engine as standard input says, a line each, in the order of time:
 *
 *     lose to frame 2 5        the 2nd and 5th frame (or copy) of a direction are lost on the wire, no others
 *     lose from control 1
 *     give 0 to 1500           at an instant in picoseconds, a frame of so many bytes
 *     set 1000000 to.delay=5   other settings
 *     state 2000000 to         print the state
 *     end                      let everything happen
 *
 * With the word `chance` losses are those of the settings; with `quiet` it does not print what is sent.
 * Prints what happens, a line each: `INSTANT to delivered N`, `… sent KIND NUMBER`, `… dropped N`, `… lost N COPY`,
 * `… marked N`, `… recovered PICOSECONDS`.
 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#define LOST_AT_MOST 4096

struct play {
	struct link *link;
	bool by_chance, is_quiet;
	/* By direction, and frames or control frames. */
	uint64_t seen[2][2];
	uint64_t lost[2][2][LOST_AT_MOST];
	int losing[2][2];
	int64_t now;
};

static bool loses(void *context, int way, bool is_control)
{
	struct play *play = context;
	uint64_t which = ++play->seen[way][is_control];
	for (int n = 0; n < play->losing[way][is_control]; n++)
		if (play->lost[way][is_control][n] == which)
			return true;
	return false;
}

#define SAY(way, now, ...) (printf("%lld %s ", (long long)(now), WAY_NAMES[way]), printf(__VA_ARGS__))

static void deliver(void *context, int way, const struct frame *frame, int64_t now)
{
	(void)context;
	SAY(way, now, "delivered %llu\n", (unsigned long long)frame->number);
}

static void drop(void *context, int way, const struct frame *frame, int64_t now)
{
	(void)context;
	SAY(way, now, "dropped %llu\n", (unsigned long long)frame->number);
}

static void lose(void *context, int way, const struct frame *frame, uint64_t number, int copy, int64_t now)
{
	(void)context;
	(void)number;
	SAY(way, now, "lost %llu %d\n", (unsigned long long)frame->number, copy);
}

static bool mark(void *context, int way, const struct frame *frame)
{
	(void)context;
	printf("%s marked %llu\n", WAY_NAMES[way], (unsigned long long)frame->number);
	return true;
}

static void recovered(void *context, int way, int64_t after)
{
	(void)context;
	printf("%s recovered %lld\n", WAY_NAMES[way], (long long)after);
}

static void sent(void *context, int way, const char *kind, uint64_t number, int64_t now)
{
	struct play *play = context;
	if (!play->is_quiet)
		SAY(way, now, "sent %s %llu\n", kind, (unsigned long long)number);
}

static int way_of(const char *name)
{
	for (int way = 0; way < 2; way++)
		if (!strcmp(name, WAY_NAMES[way]))
			return way;
	die("%s: to or from", name);
}

static void obey(struct play *play, struct settings ways[2], int count, char **words)
{
	if (!strcmp(words[0], "lose") && count > 2) {
		int way = way_of(words[1]), kind = !strcmp(words[2], "control");
		for (int n = 3; n < count && play->losing[way][kind] < LOST_AT_MOST; n++)
			play->lost[way][kind][play->losing[way][kind]++] = (uint64_t)integer_of(words[n], words[n]);
	} else if (!strcmp(words[0], "give") && count == 4) {
		play->now = integer_of(words[1], words[1]);
		link_give(play->link, way_of(words[2]), NULL, (int)integer_of(words[3], words[3]), play->now);
	} else if (!strcmp(words[0], "set") && count > 1) {
		play->now = integer_of(words[1], words[1]);
		for (int n = 2; n < count; n++)
			if (!settings_take(ways, words[n]))
				die("%s: no such setting", words[n]);
		for (int way = 0; way < 2; way++)
			if (memcmp(&ways[way], link_settings(play->link, way), sizeof ways[way]))
				link_set(play->link, way, &ways[way], play->now);
	} else if (!strcmp(words[0], "state") && count == 3) {
		play->now = integer_of(words[1], words[1]);
		link_run(play->link, play->now);
		write_state(stdout, play->link, way_of(words[2]), play->now, (double)play->now / (double)PS_PER_S);
	} else if (!strcmp(words[0], "end")) {
		for (int64_t next; (next = link_next(play->link)) != NEVER;)
			link_run(play->link, play->now = next);
	} else {
		die("%s: not understood", words[0]);
	}
}

int replay(int count, char **words)
{
	struct settings ways[2] = WAYS_DEFAULT;
	struct play play = {0};
	uint64_t seed = 1;
	for (int n = 0; n < count; n++) {
		const char *text;
		if (settings_take(ways, words[n]))
			continue;
		if ((text = value_of(words[n], "seed")))
			seed = (uint64_t)integer_of(words[n], text);
		else if (!strcmp(words[n], "chance"))
			play.by_chance = true;
		else if (!strcmp(words[n], "quiet"))
			play.is_quiet = true;
		else
			die("%s: no such option", words[n]);
	}
	struct hooks hooks = {
		.context = &play, .deliver = deliver, .drop = drop, .lose = lose, .mark = mark, .recovered = recovered, .sent = sent,
		.loses = play.by_chance ? NULL : loses,
	};
	play.link = link_new(ways, seed, &hooks);
	char line[LINE_BYTES], *parts[WORDS_MOST];
	while (fgets(line, sizeof line, stdin)) {
		int used = 0;
		for (char *part = strtok(line, " \n"); part && used < WORDS_MOST; part = strtok(NULL, " \n"))
			parts[used++] = part;
		if (used)
			obey(&play, ways, used, parts);
	}
	link_free(play.link);
	return 0;
}
