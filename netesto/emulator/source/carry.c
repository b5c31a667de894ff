/* A link between two TAP devices of this network namespace: what is sent to one comes from the other.
 *
 * One process carries one link. Commands come by a socket, one message each, and are answered:
 *
 *     set to.rate=… …          other settings; frames under way keep what they were sent with
 *     state                    `ends A,B`; of both directions the settings and the state, a line each
 *     record interval=… to.states=PATH to.losses=PATH from.states=… …
 *                              write both files of a direction from now on
 *     record                   no more
 *
 * `record` is answered by counts, a line each: `unlisted` lost frames for which the files that end had
 * no place, and `late` and `refused` ones since the program began.
 */
#define _GNU_SOURCE
#include "packet.h"
#include "program.h"
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A frame of IPv6 is not longer. */
#define FRAME_BYTES_MOST 66000
/* So many frames are read before others are delivered again. */
#define BATCH 64
#define CLIENTS_MOST 8
#define WHOLE_SECOND INT64_C(1000000000)
/* How long it sleeps if nothing happens. */
#define SLEEP_MOST (3600 * WHOLE_SECOND)
#define WATCHED (1 + CLIENTS_MOST)
/* So many reads of each device are under way in a ring. Its requests are known by numbers: those reads, descriptors of
 * commands that are watched, and addresses of payloads that are written. */
#define READS 8
#define READS_ALL (2 * READS)

struct payload {
	int bytes;
	unsigned char data[];
};

/* The files of a direction, and how often a line is written. */
struct record {
	FILE *states, *losses;
	uint64_t written;
};

/* How many frames came one after the other from a device: until now, and last time. */
struct burst {
	int frames, before;
};

static struct {
	struct link *link;
	struct settings ways[2];
	int taps[2];
	struct burst bursts[2];
	char names[2][IFNAMSIZ];
	const char *ends;
	int listener, clients[CLIENTS_MOST];
	struct record records[2];
	int64_t interval, due, utc_ahead; /* in nanoseconds, but for the first: picoseconds */
	uint64_t refused;
	/* In simulated time: frames are read and written, and instants waited for, by the calls of ring.h. */
	bool has_ring;
	unsigned writing;
} self = {.listener = -1};

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * WHOLE_SECOND + now.tv_nsec;
}

static int64_t now_ps(void)
{
	return now_ns(CLOCK_MONOTONIC) * PS_PER_NS;
}

/* ---- what the engine tells ----------------------------------------------------------------------- */

static struct payload *payload_new(const void *data, size_t bytes)
{
	struct payload *payload = malloc(sizeof *payload + bytes);
	if (!payload)
		abort();
	payload->bytes = (int)bytes;
	memcpy(payload->data, data, bytes);
	return payload;
}

/* The engine may forget the payload before it is written. */
static void begin_write(int tap, const struct payload *payload)
{
	struct payload *copy = payload_new(payload->data, (size_t)payload->bytes);
	ring_write(self.taps[tap], copy->data, (unsigned)copy->bytes, (uint64_t)(uintptr_t)copy);
	self.writing++;
}

static void deliver(void *context, int way, const struct frame *frame, int64_t now)
{
	(void)context;
	(void)now;
	const struct payload *payload = frame->payload;
	if (self.has_ring)
		begin_write(1 - way, payload);
	else if (write(self.taps[1 - way], payload->data, (size_t)payload->bytes) < 0)
		self.refused++;
}

static double utc_s(int64_t now)
{
	return (double)(now / PS_PER_NS + self.utc_ahead) / 1e9;
}

static void lose(void *context, int way, const struct frame *frame, uint64_t number, int copy, int64_t now)
{
	(void)context;
	struct record *record = &self.records[way];
	const struct payload *payload = frame->payload;
	if (!record->losses || record->written++ >= LOST_MOST)
		return;
	struct packet packet = packet_read(payload->data, payload->bytes);
	fprintf(record->losses, "%.9f,%llu,%d,%d,", utc_s(now), (unsigned long long)number, copy, frame->bytes);
	packet_write(record->losses, &packet);
}

static bool mark(void *context, int way, const struct frame *frame)
{
	(void)context;
	(void)way;
	struct payload *payload = frame->payload;
	return packet_mark(payload->data, payload->bytes);
}

static void corrupt(void *context, int way, const struct frame *frame, uint64_t random)
{
	(void)context;
	(void)way;
	struct payload *payload = frame->payload;
	payload->data[random / 8 % (uint64_t)payload->bytes] ^= (unsigned char)(1 << random % 8);
}

static void release(void *context, void *payload)
{
	(void)context;
	free(payload);
}

/* ---- devices ------------------------------------------------------------------------------------- */

static int open_tap(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (tap < 0)
		die("/dev/net/tun: %s", strerror(errno));
	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
	if (ioctl(tap, TUNSETIFF, &request))
		die("%s: %s", name, strerror(errno));
	return tap;
}

/* Frames that came faster than this process took them: the kernel has dropped them. */
static uint64_t late(int way)
{
	FILE *file = fopen("/proc/self/net/dev", "r");
	char line[512];
	uint64_t found = 0;
	while (file && fgets(line, sizeof line, file)) {
		char *name = line + strspn(line, " "), *colon = strchr(name, ':');
		if (!colon)
			continue;
		*colon = 0;
		unsigned long long sent[4];
		if (!strcmp(name, self.names[way]) &&
		    sscanf(colon + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %llu %llu %llu %llu", sent, sent + 1, sent + 2, sent + 3) == 4)
			found = sent[3];
	}
	if (file)
		fclose(file);
	return found;
}

static void end_burst(struct burst *burst)
{
	if (burst->frames)
		*burst = (struct burst){0, burst->frames};
}

static void give(int way, const void *data, size_t bytes, int64_t now)
{
	struct payload *payload = payload_new(data, bytes);
	/* Only a SYN is so short and has its flag there; what is no SYN is never asked for. */
	if (self.records[way].losses && bytes < 128) {
		struct packet packet = packet_read(payload->data, payload->bytes);
		if (packet.is_syn)
			connections_note(payload->data, payload->bytes);
	}
	link_give(self.link, way, payload, (int)bytes, now);
}

/* Reads as many frames as came last time, then twice as many: a read that finds none is a system call for nothing. */
static void take(int way, int64_t now)
{
	static unsigned char buffer[FRAME_BYTES_MOST];
	struct burst *burst = &self.bursts[way];
	int most = burst->frames ? burst->frames : burst->before ? burst->before : 1;
	for (int n = 0; n < most; n++) {
		ssize_t bytes = read(self.taps[way], buffer, sizeof buffer);
		if (bytes <= 0) {
			end_burst(burst);
			return;
		}
		burst->frames += burst->frames < BATCH;
		give(way, buffer, (size_t)bytes, now);
	}
}

static void write_faults(FILE *answer)
{
	for (int way = 0; way < 2; way++)
		fprintf(answer, "late %llu\n", (unsigned long long)late(way));
	fprintf(answer, "refused %llu\n", (unsigned long long)self.refused);
}

/* ---- commands ------------------------------------------------------------------------------------ */

static void write_states(int64_t now)
{
	for (int way = 0; way < 2; way++)
		if (self.records[way].states) {
			write_state(self.records[way].states, self.link, way, now, utc_s(now));
			fflush(self.records[way].states);
		}
}

/* Return how many lost frames had no place in the files. */
static uint64_t end_record(int64_t now)
{
	uint64_t unlisted = 0;
	if (self.interval)
		write_states(now);
	self.interval = 0;
	for (int way = 0; way < 2; way++) {
		struct record *record = &self.records[way];
		if (record->written > LOST_MOST)
			unlisted += record->written - LOST_MOST;
		if (record->states)
			fclose(record->states);
		if (record->losses)
			fclose(record->losses);
		*record = (struct record){0};
	}
	return unlisted;
}

static bool begin_record(int count, char **words, int64_t now)
{
	char name[32];
	int64_t interval = 0;
	self.utc_ahead = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
	for (int n = 0; n < count; n++) {
		const char *text = value_of(words[n], "interval");
		if (text)
			interval = strtoll(text, NULL, 10);
		for (int way = 0; way < 2; way++) {
			snprintf(name, sizeof name, "%s.states", WAY_NAMES[way]);
			if ((text = value_of(words[n], name)) && !(self.records[way].states = fopen(text, "a")))
				return false;
			snprintf(name, sizeof name, "%s.losses", WAY_NAMES[way]);
			if ((text = value_of(words[n], name))) {
				if (!(self.records[way].losses = fopen(text, "a")))
					return false;
				fputs(LOSSES_HEADER, self.records[way].losses);
			}
		}
	}
	self.interval = interval;
	self.due = now + interval;
	write_states(now);
	return true;
}

/* What a command is answered. */
static void obey(FILE *answer, char *line)
{
	char *words[WORDS_MOST];
	int count = 0;
	int64_t now = now_ps();
	link_run(self.link, now);
	for (char *word = strtok(line, " \n"); word && count < WORDS_MOST; word = strtok(NULL, " \n"))
		words[count++] = word;
	if (count && !strcmp(words[0], "set")) {
		struct settings ways[2] = {self.ways[0], self.ways[1]};
		for (int n = 1; n < count; n++)
			if (!settings_take(ways, words[n])) {
				fprintf(answer, "error %s: no such setting\n", words[n]);
				return;
			}
		for (int way = 0; way < 2; way++)
			if (memcmp(&ways[way], &self.ways[way], sizeof ways[way]))
				link_set(self.link, way, &ways[way], now);
		memcpy(self.ways, ways, sizeof ways);
		fputs("ok\n", answer);
	} else if (count && !strcmp(words[0], "state")) {
		fprintf(answer, "ends %s\n", self.ends);
		for (int way = 0; way < 2; way++)
			write_settings(answer, &self.ways[way]);
		for (int way = 0; way < 2; way++)
			write_state(answer, self.link, way, now, utc_s(now));
		write_faults(answer);
	} else if (count && !strcmp(words[0], "record")) {
		uint64_t unlisted = end_record(now);
		if (count > 1 && !begin_record(count - 1, words + 1, now)) {
			fprintf(answer, "error files cannot be written: %s\n", strerror(errno));
			end_record(now);
		} else {
			fprintf(answer, "unlisted %llu\n", (unsigned long long)unlisted);
			write_faults(answer);
		}
	} else {
		fputs("error not understood\n", answer);
	}
}

static void serve(int place)
{
	char line[LINE_BYTES], *text = NULL;
	size_t size = 0;
	ssize_t bytes = recv(self.clients[place], line, sizeof line - 1, MSG_DONTWAIT);
	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes > 0) {
		line[bytes] = 0;
		FILE *answer = open_memstream(&text, &size);
		if (answer) {
			obey(answer, line);
			fclose(answer);
			/* Whoever does not read is not waited for. */
			if (send(self.clients[place], text, size, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
				bytes = 1;
			free(text);
			return;
		}
	}
	close(self.clients[place]);
	self.clients[place] = -1;
}

/* The place of a new client, or -1. */
static int meet_client(void)
{
	int client = accept4(self.listener, NULL, NULL, SOCK_CLOEXEC);
	for (int n = 0; n < CLIENTS_MOST && client >= 0; n++)
		if (self.clients[n] < 0) {
			self.clients[n] = client;
			return n;
		}
	if (client >= 0)
		close(client);
	return -1;
}

static int control_socket(const char *path, bool is_server)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (made < 0 || strlen(path) >= sizeof address.sun_path)
		die("%s: not a path of a socket", path);
	strcpy(address.sun_path, path);
	if (is_server ? bind(made, (struct sockaddr *)&address, sizeof address) || listen(made, CLIENTS_MOST)
		      : connect(made, (struct sockaddr *)&address, sizeof address))
		die("%s: %s", path, strerror(errno));
	return made;
}

/* ---- the program --------------------------------------------------------------------------------- */

/* Nanoseconds until an instant, so that nobody wakes early. */
static int64_t left_ns(int64_t wake, int64_t now)
{
	int64_t ns = wake <= now ? 0 : wake == NEVER ? SLEEP_MOST : (wake - now + PS_PER_NS - 1) / PS_PER_NS;
	return ns < SLEEP_MOST ? ns : SLEEP_MOST;
}

/* Wait for frames, commands, or an instant; take what has come. Return when it is. */
static int64_t wait_by_poll(int64_t wake, int64_t now)
{
	struct pollfd polled[2 + WATCHED];
	nfds_t count = 3;
	polled[0] = (struct pollfd){self.taps[0], POLLIN, 0};
	polled[1] = (struct pollfd){self.taps[1], POLLIN, 0};
	polled[2] = (struct pollfd){self.listener, POLLIN, 0};
	for (int n = 0; n < CLIENTS_MOST; n++) {
		polled[3 + n] = (struct pollfd){self.clients[n], POLLIN, 0};
		if (self.clients[n] >= 0)
			count = 3 + (nfds_t)n + 1;
	}
	int64_t ns = left_ns(wake, now);
	struct timespec left = {ns / WHOLE_SECOND, ns % WHOLE_SECOND};
	int ready = ppoll(polled, count, &left, NULL);
	now = now_ps();
	if (ready <= 0)
		return now;
	link_run(self.link, now);
	for (int way = 0; way < 2; way++) {
		if (polled[way].revents & POLLERR)
			die("%s: the device has gone", self.names[way]);
		if (polled[way].revents & POLLIN)
			take(way, now);
		else
			end_burst(&self.bursts[way]);
	}
	for (nfds_t n = 3; n < count; n++)
		if (self.clients[n - 3] >= 0 && polled[n].revents)
			serve((int)n - 3);
	if (polled[2].revents & POLLIN)
		meet_client();
	return now;
}

static unsigned char read_data[READS_ALL][FRAME_BYTES_MOST];

static void begin_read(int place)
{
	ring_read(self.taps[place / READS], read_data[place], FRAME_BYTES_MOST, (uint64_t)place);
}

static void end_read(int place, int bytes, int64_t now)
{
	int way = place / READS;
	if (bytes > 0)
		give(way, read_data[place], (size_t)bytes, now);
	else if (bytes != -EAGAIN && bytes != -EINTR)
		die("%s: %s", self.names[way], strerror(-bytes));
	begin_read(place);
}

static void end_write(uint64_t address, int result)
{
	self.refused += result < 0;
	self.writing--;
	free((void *)(uintptr_t)address);
}

/* Watch the listener, or a client: its place and 1. */
static void watch(int which)
{
	ring_poll(which ? self.clients[which - 1] : self.listener, (uint64_t)(READS_ALL + which));
}

static void end_watch(int which)
{
	int place = which ? (serve(which - 1), which - 1) : meet_client();
	if (place >= 0 && self.clients[place] >= 0)
		watch(1 + place);
	if (!which)
		watch(0);
}

static bool begin_ring(void)
{
	if (!ring_open())
		return false;
	for (int place = 0; place < READS_ALL; place++)
		begin_read(place);
	watch(0);
	return true;
}

/* As wait_by_poll. What was begun to be written is done at once; the wait is for more. */
static int64_t wait_by_ring(int64_t wake, int64_t now)
{
	struct done done;
	ring_wait(self.writing + 1, left_ns(wake, now));
	now = now_ps();
	link_run(self.link, now);
	while (ring_next(&done)) {
		if (done.what < READS_ALL)
			end_read((int)done.what, done.result, now);
		else if (done.what < READS_ALL + WATCHED)
			end_watch((int)done.what - READS_ALL);
		else
			end_write(done.what, done.result);
	}
	return now;
}

static void run(void)
{
	int64_t now = now_ps();
	for (;;) {
		link_run(self.link, now);
		if (self.interval && now >= self.due) {
			write_states(now);
			self.due += (now - self.due) / self.interval * self.interval + self.interval;
		}
		int64_t wake = link_wake(self.link);
		if (self.interval && self.due < wake)
			wake = self.due;
		now = self.has_ring ? wait_by_ring(wake, now) : wait_by_poll(wake, now);
	}
}

int carry(int count, char **words)
{
	struct settings ways[2] = WAYS_DEFAULT;
	const char *control = NULL, *taps = NULL;
	uint64_t seed = 1;
	int ready = -1;
	bool is_simulated = false;
	for (int n = 0; n < count; n++) {
		const char *text;
		if (settings_take(ways, words[n]))
			continue;
		if ((text = value_of(words[n], "tap")))
			taps = text;
		else if ((text = value_of(words[n], "control")))
			control = text;
		else if ((text = value_of(words[n], "seed")))
			seed = (uint64_t)integer_of(words[n], text);
		else if ((text = value_of(words[n], "ends")))
			self.ends = text;
		else if ((text = value_of(words[n], "simulated")))
			is_simulated = integer_of(words[n], text);
		else if ((text = value_of(words[n], "ready")))
			ready = (int)integer_of(words[n], text);
		else
			die("%s: no such option", words[n]);
	}
	if (!control || !taps || sscanf(taps, "%15[^,],%15s", self.names[0], self.names[1]) != 2)
		die("usage: netesto-link carry tap=NAME,NAME control=PATH ...");
	/* Otherwise the kernel wakes every sleeper up to 50 µs late, to save interrupts: prctl(2). */
	prctl(PR_SET_TIMERSLACK, 1);
	signal(SIGPIPE, SIG_IGN);
	for (int way = 0; way < 2; way++)
		self.taps[way] = open_tap(self.names[way]);
	for (int n = 0; n < CLIENTS_MOST; n++)
		self.clients[n] = -1;
	self.listener = control_socket(control, true);
	memcpy(self.ways, ways, sizeof ways);
	struct hooks hooks = {.deliver = deliver, .lose = lose, .mark = mark, .corrupt = corrupt, .release = release};
	self.link = link_new(ways, seed, &hooks);
	self.has_ring = is_simulated && begin_ring();
	if (ready >= 0) {
		if (write(ready, "r", 1) != 1)
			die("nobody waits");
		close(ready);
	}
	run();
	return 0;
}

int tell(int count, char **words)
{
	char line[LINE_BYTES * 4] = "";
	size_t used = 0;
	int client = control_socket(words[0], false);
	struct timeval patience = {10, 0};
	setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	for (int n = 1; n < count && used < LINE_BYTES; n++)
		used += (size_t)snprintf(line + used, LINE_BYTES - used, "%s ", words[n]);
	if (used >= LINE_BYTES)
		die("too many words");
	if (send(client, line, used, MSG_NOSIGNAL) < 0)
		die("%s: %s", words[0], strerror(errno));
	ssize_t bytes = recv(client, line, sizeof line - 1, 0);
	if (bytes <= 0)
		die("%s: no answer", words[0]);
	line[bytes] = 0;
	if (!strncmp(line, "error ", 6))
		die("%.*s", (int)strcspn(line + 6, "\n"), line + 6);
	fputs(line, stdout);
	return 0;
}
