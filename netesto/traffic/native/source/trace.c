/* TRACE_TCP, TRACE_UDP, TRACE_KV: what one host does in a trace, all of it in one process: flows to
 * several hosts, or requests to several stores. Times count from one instant, which all hosts share;
 * they are namespaces of one machine, and have one clock.
 *
 * The file of the option `trace` has a line for each peer, then one for each flow or request:
 *
 *     P NAME ADDRESS CONTROL-PORT DATA-PORT
 *     F START DURATION FLOWLET GAP BYTES PEER SAMPLED
 *                                                 nanoseconds; BYTES 0: a flow of that duration;
 *                                                 SAMPLED 0: agents do not watch its port
 *     S START PEER KEY VALUE, G START PEER KEY    set, get; PEER counts from 0
 *
 * Each peer has a session (server.c). After "ready":
 *
 *     client <-- "port PORT"                ---- receiver    TCP: of flows that are not sampled
 *     client --- "flow PORT THERE START DURATION" -> receiver    its ports of both hosts: a port of
 *                                                  this host may have flows to both of the other
 *     client --- "zero NS"                  ---> receiver    the common instant
 *     client --- "end"                      ---> receiver
 *     client <-- "flow PORT THERE IN-TIME ALL LAST" - receiver   bytes, and when the last arrived
 *     client <-- "window BYTES"             ---- receiver    of datagrams to the host, see below
 *     client <-- "done"                     ---- receiver
 */
#include "flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 1400
#define PEERS_MAX 1024
#define CONNECT_TIMEOUT (10 * NS_PER_S)
/* "end" and its answer wait behind what is queued: 12 s in a queue of 1000 packets at 1 Mbit/s. The
 * controller waits for 30 s. */
#define ANSWER_TIMEOUT (28 * NS_PER_S)
/* Of addresses. The variables of threads (_Thread_local) are on it, too; the C library clears them,
 * so that they take memory in every thread. */
#define STACK_BYTES (1024 * 1024)
/* A flow has a thread from so long before its start until its end. */
#define AHEAD (NS_PER_S / 20)
#define VALUE_ROOM (1 << 21)
#define PROGRESS NS_PER_S
/* The spacing of datagrams varies by so much of it: drop-tail queues lock flows of one constant rate
 * in phase. */
#define SPACING 0.1
#define RECEIVE_BUFFER (4 * 1024 * 1024)

/* ---- the player */

struct peer {
    char name[64];
    struct flow flow; /* its session */
    struct failure why;
    int store; /* the connection for requests */
    int other_port;
    size_t used;
};

/* A flow or a request. */
struct deed {
    char kind; /* F, S or G */
    bool has_begun, is_miss;
    int fd, port, peer, is_sampled, there; /* `there`: the other end's port */
    int64_t start, duration, flowlet, gap, size;
    int64_t begun, took; /* of a flow until its last byte arrived, of a request until its reply */
    int64_t sent, in_time, arrived;
    char *key, *value;
    struct failure why;
    struct player *player;
    uint64_t random;
};

struct player {
    struct flow *flow;
    struct peer peers[PEERS_MAX];
    int peer_count;
    struct deed *deeds;
    size_t count, room;
    int64_t zero, end;
    _Atomic int64_t sent;
    int64_t gets, misses;
    _Atomic bool has_requested; /* all requests have ended */
    sem_t done; /* of flows */
};

static const char DATA[LENGTH];

static struct deed *new_deed(struct player *player)
{
    if (player->count == player->room) {
        size_t room = player->room ? player->room * 2 : 256;
        struct deed *deeds = realloc(player->deeds, room * sizeof *deeds);
        if (!deeds)
            return NULL;
        player->deeds = deeds;
        player->room = room;
    }
    struct deed *deed = &player->deeds[player->count++];
    *deed = (struct deed){.fd = -1};
    return deed;
}

static int read_peer(struct player *player, const char *line, struct failure *why)
{
    char address[64];
    int control, data;
    struct peer *peer = &player->peers[player->peer_count];
    if (player->peer_count == PEERS_MAX ||
        sscanf(line, "P %63s %63s %d %d", peer->name, address, &control, &data) != 4)
        return fail(why, "invalid peer: %.100s", line);
    player->peer_count++;
    peer->store = -1;
    peer->flow = (struct flow){.end = CLIENT, .control = -1, .listener = -1, .why = &peer->why,
                               .options = player->flow->options, .local = player->flow->local};
    peer->flow.options.port = data;
    if (address_parse(address, data, &peer->flow.peer, why))
        return -1;
    struct sockaddr_storage *place = &peer->flow.control_place;
    return address_parse(address, control, place, why);
}

static int read_deed(struct player *player, char *line, struct failure *why)
{
    struct deed *deed = new_deed(player);
    long long start, duration, flowlet, gap, size;
    int used = 0, is_sampled = 1;
    if (!deed)
        return fail(why, "no memory");
    deed->kind = *line;
    bool is_read = false;
    if (*line == 'F')
        is_read = sscanf(line, "F %lld %lld %lld %lld %lld %d %d", &start, &duration, &flowlet,
                         &gap, &size, &deed->peer, &is_sampled) == 7;
    else if (*line == 'S' || *line == 'G')
        is_read = sscanf(line + 1, " %lld %d %n", &start, &deed->peer, &used) == 2 && used;
    if (!is_read || deed->peer < 0 || deed->peer >= player->peer_count)
        return fail(why, "invalid line of the trace: %.100s", line);
    deed->start = start;
    deed->is_sampled = is_sampled;
    if (*line == 'F') {
        deed->duration = duration;
        deed->flowlet = flowlet;
        deed->gap = gap;
        deed->size = size;
        return 0;
    }
    char *rest;
    char *key = strtok_r(line + 1 + used, " ", &rest), *value = strtok_r(NULL, " ", &rest);
    deed->key = key ? strdup(key) : NULL;
    deed->value = strdup(value ? value : "");
    return deed->key && deed->value ? 0 : fail(why, "invalid request: %.100s", line);
}

static int read_trace(struct player *player, const char *path, struct failure *why)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int status = file ? 0 : fail_errno(why, path);
    while (!status && (size = getline(&line, &room, file)) > 0) {
        if (line[size - 1] == '\n')
            line[size - 1] = '\0';
        status = *line == 'P' ? read_peer(player, line, why) : read_deed(player, line, why);
    }
    free(line);
    if (file)
        fclose(file);
    return status;
}

/* Sessions with all peers; that with the first was begun by the caller. */
static int meet(struct player *player)
{
    struct failure *why = player->flow->why;
    for (int n = 0; n < player->peer_count; n++) {
        struct flow *flow = &player->peers[n].flow;
        char line[LINE_MAX_BYTES];
        bool is_tcp = flow->options.test == TRACE_TCP, is_met = true;
        if (n) {
            flow->control =
                connect_to(&flow->local, &flow->control_place, NULL, now() + CONNECT_TIMEOUT, why);
            is_met = flow->control >= 0 &&
                     !agree(flow, player->flow->word_count, player->flow->words);
        } else {
            flow->control = player->flow->control;
        }
        if (is_met && is_tcp)
            is_met = !read_line(flow->control, line, sizeof line, now() + CONNECT_TIMEOUT, why) &&
                     (sscanf(line, "port %d", &player->peers[n].other_port) == 1 ||
                      !fail(why, "%.200s", line));
        if (!is_met) {
            if (*flow->why->text)
                *why = *flow->why;
            struct failure reason = *why;
            return fail(why, "%s: %.180s", player->peers[n].name, reason.text);
        }
    }
    return 0;
}

static int port_of(int fd)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &size))
        return 0;
    return ntohs(((struct sockaddr_in *)&own)->sin_port);
}

/* The sockets of flows and requests. A flow that cannot connect fails alone. */
static int connect_all(struct player *player)
{
    struct failure *why = player->flow->why;
    const struct options *options = &player->flow->options;
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    for (size_t n = 0; n < player->count; n++) {
        struct deed *deed = &player->deeds[n];
        struct peer *peer = &player->peers[deed->peer];
        struct flow *flow = &peer->flow;
        struct sockaddr_storage there = flow->peer;
        if (flow->options.test == TRACE_TCP && !deed->is_sampled)
            address_set_port(&there, peer->other_port);
        deed->there = ntohs(((struct sockaddr_in *)&there)->sin_port);
        deed->player = player;
        deed->random = ((uint64_t)options->seed * 1000003 + n) * 2 + 1;
        random_next(&deed->random);
        if (deed->kind != 'F') {
            if (peer->store < 0)
                peer->store = connect_to(&flow->local, &flow->peer, &flow->options,
                                         now() + CONNECT_TIMEOUT, why);
            if (peer->store < 0)
                return -1;
            deed->fd = peer->store;
        } else if (options->test == TRACE_UDP) {
            deed->fd = datagram_socket(&flow->local, &flow->peer, &flow->options, CLIENT, &deed->why);
        } else {
            deed->fd = connect_to(&flow->local, &there, &flow->options, now() + CONNECT_TIMEOUT,
                                  &deed->why);
        }
        deed->port = deed->fd < 0 ? 0 : port_of(deed->fd);
        if (deed->kind == 'F' && deed->fd >= 0 &&
            say(flow->control, "flow %d %d %lld %lld\n", deed->port, deed->there,
                (long long)deed->start, (long long)deed->duration))
            return fail_errno(why, "control connection");
    }
    return 0;
}

/* The instant from which a flow sends that is about to send at `time`: in a silence the begin of the
 * next flowlet. */
static int64_t out_of_silence(const struct deed *deed, int64_t begin, int64_t time)
{
    int64_t cycle = deed->flowlet + deed->gap, passed = time - begin;
    if (!deed->flowlet || !deed->gap || passed % cycle < deed->flowlet)
        return time;
    return begin + (passed / cycle + 1) * cycle;
}

/* A flow has sent its first bytes: from now on it has normal priority. */
static void note_begin(struct deed *deed, int64_t time)
{
    if (deed->has_begun)
        return;
    deed->has_begun = true;
    deed->begun = time;
    hurry(false);
}

/* Writes of 1400 bytes, the next one a gap after the one before has returned. */
static void play_connection(struct deed *deed, int64_t begin, int64_t end)
{
    struct pacer pacer = {0};
    int64_t bitrate = deed->player->flow->options.bitrate;
    int64_t gap = bitrate ? LENGTH * 8 * NS_PER_S / bitrate : 0;
    int64_t due = begin, part = 0; /* sent of this write */
    set_nonblocking(deed->fd, true);
    while (!deed->size || deed->sent < deed->size) {
        if (!part)
            due = out_of_silence(deed, begin, due);
        if (due >= end)
            break;
        if (!part && due > now())
            pace(&pacer, due);
        int64_t left = deed->size ? deed->size - deed->sent : LENGTH;
        int64_t wanted = LENGTH - part < left ? LENGTH - part : left, before = now();
        ssize_t put = send(deed->fd, DATA, (size_t)wanted, MSG_NOSIGNAL | MSG_DONTWAIT);
        int64_t time = now();
        if (put > 0) {
            note_begin(deed, before);
            deed->sent += put;
            deed->player->sent += put;
            part = (part + put) % LENGTH;
            due = part ? time : time + gap;
        } else if (errno == EAGAIN || errno == ENOBUFS) {
            wait_for(deed->fd, POLLOUT, end);
            due = now();
        } else if (errno != EINTR) {
            fail_errno(&deed->why, "send");
            break;
        }
    }
}

/* Datagrams of 1400 bytes; one that is late by more than a gap is skipped, not sent in a burst. */
static void play_datagrams(struct deed *deed, int64_t begin, int64_t end)
{
    struct pacer pacer = {0};
    int64_t gap = LENGTH * 8 * NS_PER_S / deed->player->flow->options.bitrate;
    for (int64_t due = begin; !deed->size || deed->sent < deed->size;) {
        due = out_of_silence(deed, begin, due);
        if (due >= end)
            break;
        pace(&pacer, due);
        int64_t time = now();
        if (time > due + gap) {
            due = time;
            continue;
        }
        int64_t left = deed->size ? deed->size - deed->sent : LENGTH;
        ssize_t put = send(deed->fd, DATA, (size_t)(left < LENGTH ? left : LENGTH), MSG_DONTWAIT);
        if (put > 0) {
            note_begin(deed, time);
            deed->sent += put;
            deed->player->sent += put;
        } else if (errno == EAGAIN) {
            wait_for(deed->fd, POLLOUT, end);
        } else if (errno != EINTR && errno != ENOBUFS && errno != ECONNREFUSED) {
            fail_errno(&deed->why, "send");
            break;
        }
        double share = (double)(random_next(&deed->random) >> 11) / 9007199254740992.0;
        due += (int64_t)((double)gap * (1 - SPACING + 2 * SPACING * share));
    }
}

static void *play(void *argument)
{
    struct deed *deed = argument;
    struct player *player = deed->player;
    int64_t begin = player->zero + deed->start;
    int64_t end = deed->size ? player->end : begin + deed->duration;
    struct pacer pacer = {0};
    pace(&pacer, begin);
    if (player->flow->options.test == TRACE_UDP)
        play_datagrams(deed, begin, end);
    else
        play_connection(deed, begin, end);
    sem_post(&player->done);
    return NULL;
}

/* Flows are in the order of their starts. Their threads inherit the priority, until they have begun. */
static void *play_all(void *argument)
{
    struct player *player = argument;
    pthread_attr_t small;
    size_t started = 0;
    hurry(true);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (size_t n = 0; n < player->count; n++) {
        struct deed *deed = &player->deeds[n];
        pthread_t thread;
        if (deed->fd < 0 || (!deed->size && deed->duration <= 0))
            continue;
        sleep_until(player->zero + deed->start - AHEAD);
        int error = pthread_create(&thread, &small, play, deed);
        if (error)
            fail(&deed->why, "cannot start a thread: %s", strerror(error));
        started += !error;
    }
    while (started)
        started -= !sem_wait(&player->done);
    pthread_attr_destroy(&small);
    return NULL;
}

static bool ends_with(const char *text, size_t size, const char *end)
{
    size_t length = strlen(end);
    return size >= length && !memcmp(text + size - length, end, length);
}

/* Whether the reply is complete: 1, 0 not yet, -1 an error of the store. */
static int is_complete(const char *reply, size_t used, bool is_get)
{
    long long size;
    const char *line = memchr(reply, '\n', used);
    if (!line)
        return 0;
    if (!is_get)
        return ends_with(reply, used, "STORED\r\n") ? 1 : -1;
    if (!strncmp(reply, "END\r\n", 5))
        return 1;
    if (sscanf(reply, "VALUE %*s %*s %lld", &size) != 1)
        return -1;
    size_t whole = (size_t)(line + 1 - reply) + (size_t)size + strlen("\r\nEND\r\n");
    return used >= whole;
}

/* One request at a time. After one that failed its connection has no use. It waits without a deadline,
 * which would cost a system call and a timer for each reply: see `interrupt`. */
static void request(struct player *player, struct deed *deed, char *buffer)
{
    struct pacer pacer = {0};
    int64_t due = player->zero + deed->start;
    bool is_get = deed->kind == 'G';
    size_t size = strlen(deed->value), used = 0;
    pace(&pacer, due);
    deed->has_begun = true;
    deed->begun = now();
    int length = is_get ? snprintf(buffer, VALUE_ROOM, "get %s\r\n", deed->key)
                        : snprintf(buffer, VALUE_ROOM, "set %s 0 0 %zu\r\n%s\r\n", deed->key, size,
                                   deed->value);
    int complete = 0;
    if (*player->peers[deed->peer].why.text)
        deed->why = player->peers[deed->peer].why;
    else if (write_all(deed->fd, buffer, (size_t)length) && now() < player->end)
        fail_errno(&deed->why, "send");
    deed->sent = *deed->why.text ? 0 : length;
    while (!*deed->why.text && !complete) {
        ssize_t got = recv(deed->fd, buffer + used, VALUE_ROOM - 1 - used, 0);
        if (!got && now() >= player->end) {
            fail(&deed->why, "no reply");
        } else if (got <= 0 && !(got < 0 && errno == EINTR)) {
            fail(&deed->why, "the store closed the connection");
        } else if (got > 0) {
            used += (size_t)got;
            buffer[used] = '\0';
            complete = is_complete(buffer, used, is_get);
            if (complete < 0)
                fail(&deed->why, "the store replied: %.*s", (int)strcspn(buffer, "\r\n"), buffer);
        }
    }
    deed->took = now() - due;
    deed->arrived = (int64_t)used;
    player->sent += deed->sent;
    if (*deed->why.text) {
        player->peers[deed->peer].why = deed->why;
    } else if (is_get) {
        deed->is_miss = !strncmp(buffer, "END\r\n", 5);
        player->gets++;
        player->misses += deed->is_miss;
    }
}

static void *request_all(void *argument)
{
    struct player *player = argument;
    char *buffer = malloc(VALUE_ROOM);
    for (size_t n = 0; n < player->count; n++)
        if (buffer)
            request(player, &player->deeds[n], buffer);
        else
            fail(&player->deeds[n].why, "no memory");
    free(buffer);
    player->has_requested = true;
    return NULL;
}

/* At the end: requests that still wait for a reply get none. */
static void interrupt(struct player *player)
{
    for (int n = 0; n < player->peer_count && !player->has_requested; n++)
        if (player->peers[n].store >= 0)
            shutdown(player->peers[n].store, SHUT_RDWR);
}

static void tell_progress(struct player *player)
{
    int64_t before = 0;
    for (int64_t next = player->zero + PROGRESS; next < player->end; next += PROGRESS) {
        sleep_until(next);
        int64_t sent = player->sent;
        tell_interval("bytes", sent - before, PROGRESS);
        before = sent;
    }
    sleep_until(player->end);
}

static struct deed *deed_of(struct player *player, int peer, int port, int there)
{
    for (size_t n = 0; n < player->count; n++) {
        struct deed *deed = &player->deeds[n];
        if (deed->peer == peer && deed->port == port && deed->there == there)
            return deed;
    }
    return NULL;
}

/* What the receivers counted. */
static int hear(struct player *player, FILE *windows)
{
    struct failure *why = player->flow->why;
    const char *comma = "";
    for (int n = 0; n < player->peer_count; n++) {
        int control = player->peers[n].flow.control;
        char line[LINE_MAX_BYTES];
        int64_t deadline = now() + ANSWER_TIMEOUT;
        for (int number = 0;;) {
            long long in_time, all, last, bytes;
            int port, there;
            if (read_line(control, line, sizeof line, deadline, why))
                return -1;
            if (!strcmp(line, "done"))
                break;
            if (sscanf(line, "window %lld", &bytes) == 1) {
                fprintf(windows, "%s[\"%s\",%d,%lld]", comma, player->peers[n].name, number++, bytes);
                comma = ",";
            } else if (sscanf(line, "flow %d %d %lld %lld %lld", &port, &there, &in_time, &all,
                              &last) == 5) {
                struct deed *deed = deed_of(player, n, port, there);
                if (deed) {
                    deed->in_time = in_time;
                    deed->arrived = all;
                    deed->took = last ? last - player->zero - deed->start : 0;
                }
            } else {
                return fail(why, "%s: %.150s", player->peers[n].name, line);
            }
        }
        if (n)
            close(control);
    }
    return 0;
}

static const char *status_of(const struct deed *deed, char *room, size_t size)
{
    if (*deed->why.text)
        snprintf(room, size, "failed: %.200s", deed->why.text);
    else if (deed->kind != 'F')
        return deed->is_miss ? "miss" : "ok";
    else if (deed->sent && !deed->arrived)
        return "failed: nothing arrived";
    else if (deed->size && deed->arrived < deed->size)
        snprintf(room, size, "failed: %lld of %lld bytes arrived", (long long)deed->arrived,
                 (long long)deed->size);
    else
        return "ok";
    for (char *each = room; *each; each++)
        if (*each == ',' || *each == '"' || *each == '\n')
            *each = ';';
    return room;
}

static bool has_failed(const struct deed *deed)
{
    char room[256];
    return !strncmp(status_of(deed, room, sizeof room), "failed", 6);
}

/* The lines of trace.csv, which the processes of a host share. */
static int write_lines(struct player *player)
{
    static const char HEADER[] = "number,kind,start_s,destination,sport,bytes_sent,bytes_received,us,"
                                 "status,bytes_in_time,group,dport\n";
    struct failure *why = player->flow->why;
    FILE *file = fopen(player->flow->options.lines, "ae");
    if (!file)
        return fail_errno(why, player->flow->options.lines);
    flock(fileno(file), LOCK_EX);
    fseek(file, 0, SEEK_END);
    if (!ftell(file))
        fputs(HEADER, file);
    for (size_t n = 0; n < player->count; n++) {
        const struct deed *deed = &player->deeds[n];
        char room[256];
        const char *kind = deed->kind == 'F' ? "flow" : deed->kind == 'S' ? "set" : "get";
        fprintf(file, "%zu,%s,", n + 1, kind);
        if (deed->has_begun)
            fprintf(file, "%.6f", (double)(deed->begun - player->zero) / 1e9);
        fprintf(file, ",%s,%d,%lld,%lld,", player->peers[deed->peer].name, deed->port,
                (long long)deed->sent, (long long)deed->arrived);
        if (deed->took > 0)
            fprintf(file, "%.3f", (double)deed->took / 1e3);
        fprintf(file, ",%s,%lld,%lld,%d\n", status_of(deed, room, sizeof room),
                (long long)deed->in_time, (long long)player->flow->options.group, deed->there);
    }
    bool is_bad = ferror(file);
    return fclose(file) || is_bad ? fail_errno(why, "trace.csv") : 0;
}

static int tell(struct player *player, struct json *result)
{
    struct times times = {0};
    int64_t failed = 0, in_time = 0, last = 0, first = INT64_MAX, gets = player->gets;
    for (size_t n = 0; n < player->count; n++) {
        const struct deed *deed = &player->deeds[n];
        failed += has_failed(deed);
        in_time += deed->in_time;
        int64_t end = deed->start + (deed->size ? deed->took : deed->duration);
        last = end > last ? end : last;
        first = deed->start < first ? deed->start : first;
        if (deed->kind != 'F' && !*deed->why.text && times_add(&times, deed->start, deed->took))
            return fail(player->flow->why, "no memory");
    }
    if (failed && failed == (int64_t)player->count) {
        for (size_t n = 0; n < player->count; n++)
            if (*player->deeds[n].why.text)
                return fail(player->flow->why, "all failed, the first: %.200s",
                            player->deeds[n].why.text);
        return fail(player->flow->why, "nothing arrived");
    }
    json_integer(result, "events", (int64_t)player->count);
    json_integer(result, "failed", failed);
    json_integer(result, "in_time_bytes", in_time);
    json_integer(result, "span_ns", last > first ? last - first : 0);
    json_integer(result, "gets", gets);
    json_integer(result, "misses", player->misses);
    if (player->flow->options.test == TRACE_KV)
        json_latencies(result, &times);
    free(times.items);
    return 0;
}

static int run(struct player *player, struct json *result)
{
    struct flow *flow = player->flow;
    struct failure *why = flow->why;
    pthread_t worker;
    bool is_kv = flow->options.test == TRACE_KV;
    int status = 0;
    if (be_ready(flow))
        return -1;
    player->zero = flow->options.start ? flow->options.start : now();
    player->end = player->zero + flow->options.duration;
    for (int n = 0; n < player->peer_count; n++)
        say(player->peers[n].flow.control, "zero %lld\n", (long long)player->zero);
    sem_init(&player->done, 0, 0);
    int error = pthread_create(&worker, NULL, is_kv ? request_all : play_all, player);
    if (error)
        status = fail(why, "cannot start a thread: %s", strerror(error));
    struct processor_use before = approach(player->zero);
    reach(player->zero);
    begin(flow, player->zero);
    tell_progress(player);
    if (is_kv && !error)
        interrupt(player);
    if (!error)
        pthread_join(worker, NULL);
    json_number(result, "client_cpu_percent", processor_percent(before, processor_use()));
    /* What is still queued is dropped. */
    for (size_t n = 0; n < player->count && !is_kv; n++)
        if (player->deeds[n].fd >= 0)
            abort_connection(player->deeds[n].fd);
    for (int n = 0; n < player->peer_count; n++) {
        if (player->peers[n].store >= 0)
            abort_connection(player->peers[n].store);
        say(player->peers[n].flow.control, "end\n");
    }
    char *windows = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&windows, &size);
    if (!file)
        return fail(why, "no memory");
    fputs("\"windows\":[", file);
    if (!status)
        status = hear(player, file);
    fputc(']', file);
    fclose(file);
    if (!status) {
        json_members(result, windows, size);
        status = write_lines(player) ? -1 : tell(player, result);
    }
    free(windows);
    return status;
}

int trace_client(struct flow *flow, struct json *result)
{
    struct player *player = calloc(1, sizeof *player);
    if (!player)
        return fail(flow->why, "no memory");
    player->flow = flow;
    int status = read_trace(player, flow->options.trace, flow->why);
    if (!status && !player->peer_count)
        status = fail(flow->why, "a trace without a peer");
    if (!status)
        status = meet(player);
    if (!status)
        status = connect_all(player);
    if (!status)
        status = run(player, result);
    for (size_t n = 0; n < player->count; n++) {
        free(player->deeds[n].key);
        free(player->deeds[n].value);
    }
    free(player->deeds);
    free(player);
    return status;
}

/* ---- the receiver */

/* The course's windows of a host: 5 s each from the common instant. A datagram that arrives at or
 * after the end of the open one closes it, and counts in it. All sessions of a trace share them. */
#define WINDOW (5 * NS_PER_S)
#define TRACES_MAX 64
static struct windows {
    int64_t zero, bytes;
    int64_t *closed;
    size_t count, room;
} traces[TRACES_MAX];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static struct windows *windows_of(int64_t zero)
{
    struct windows *oldest = &traces[0];
    for (size_t n = 0; n < TRACES_MAX; n++) {
        if (traces[n].zero == zero)
            return &traces[n];
        if (traces[n].zero < oldest->zero)
            oldest = &traces[n];
    }
    free(oldest->closed);
    *oldest = (struct windows){.zero = zero};
    return oldest;
}

static void count_in_window(int64_t zero, int64_t time, int64_t bytes)
{
    pthread_mutex_lock(&turn);
    struct windows *found = windows_of(zero);
    found->bytes += bytes;
    if (time - zero >= (int64_t)(found->count + 1) * WINDOW) {
        if (found->count == found->room) {
            size_t room = found->room ? found->room * 2 : 64;
            int64_t *closed = realloc(found->closed, room * sizeof *closed);
            if (closed) {
                found->closed = closed;
                found->room = room;
            }
        }
        if (found->count < found->room)
            found->closed[found->count++] = found->bytes;
        found->bytes = 0;
    }
    pthread_mutex_unlock(&turn);
}

static void tell_windows(int64_t zero, int control)
{
    pthread_mutex_lock(&turn);
    const struct windows *found = windows_of(zero);
    for (size_t n = 0; n < found->count; n++)
        say(control, "window %lld\n", (long long)found->closed[n]);
    pthread_mutex_unlock(&turn);
}

/* A flow as its receiver sees it. */
struct arriving {
    int port, there, fd; /* `there`: of this host */
    int64_t start, duration, in_time, all, last;
};

struct receiver {
    struct flow *flow;
    struct arriving *flows;
    size_t count, room;
    int64_t zero;
    char *buffer;
    int other; /* the listener of flows that are not sampled */
};

#define BUFFER_BYTES (1 << 16)

static struct arriving *arriving_at(struct receiver *receiver, int fd,
                                    const struct sockaddr_storage *peer)
{
    int port = ntohs(((const struct sockaddr_in *)peer)->sin_port), there = port_of(fd);
    for (size_t n = 0; n < receiver->count; n++)
        if (receiver->flows[n].port == port && receiver->flows[n].there == there)
            return &receiver->flows[n];
    return NULL;
}

static void count_arrival(struct receiver *receiver, struct arriving *flow, int64_t bytes)
{
    int64_t time = now(), passed = time - receiver->zero - flow->start;
    flow->all += bytes;
    flow->last = time;
    if (!flow->duration || passed < flow->duration)
        flow->in_time += bytes;
    if (receiver->flow->options.test == TRACE_UDP)
        count_in_window(receiver->zero, time, bytes);
}

/* Learn of the flows, and when they begin. */
static int learn(struct receiver *receiver)
{
    struct failure *why = receiver->flow->why;
    for (;;) {
        char line[LINE_MAX_BYTES];
        long long start, duration, zero;
        int port, there;
        if (read_line(receiver->flow->control, line, sizeof line, INT64_MAX, why))
            return -1;
        if (sscanf(line, "zero %lld", &zero) == 1) {
            receiver->zero = zero;
            return 0;
        }
        if (sscanf(line, "flow %d %d %lld %lld", &port, &there, &start, &duration) != 4)
            return fail(why, "unexpected: %.100s", line);
        if (receiver->count == receiver->room) {
            size_t room = receiver->room ? receiver->room * 2 : 64;
            struct arriving *flows = realloc(receiver->flows, room * sizeof *flows);
            if (!flows)
                return fail(why, "no memory");
            receiver->flows = flows;
            receiver->room = room;
        }
        receiver->flows[receiver->count++] =
            (struct arriving){.port = port, .there = there, .fd = -1, .start = start,
                              .duration = duration};
    }
}

static int accept_all(struct receiver *receiver)
{
    for (size_t n = 0; n < receiver->count; n++) {
        struct flow from = *receiver->flow;
        wait_for_either(from.listener, receiver->other, now() + CONNECT_TIMEOUT);
        if (!wait_for(from.listener, POLLIN, 0))
            from.listener = receiver->other;
        int fd = accept_one(&from, now() + CONNECT_TIMEOUT);
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        if (fd < 0)
            return -1;
        struct arriving *flow = getpeername(fd, (struct sockaddr *)&peer, &size)
                                    ? NULL
                                    : (address_unmap(&peer), arriving_at(receiver, fd, &peer));
        if (flow)
            flow->fd = fd;
        else
            close(fd);
    }
    return 0;
}

static void receive_datagrams(struct receiver *receiver)
{
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        ssize_t got = recvfrom(receiver->flow->listener, receiver->buffer, BUFFER_BYTES,
                               MSG_DONTWAIT, (struct sockaddr *)&peer, &size);
        if (got < 0)
            return;
        if (!is_same_host(&peer, &receiver->flow->peer))
            continue;
        struct arriving *flow = arriving_at(receiver, receiver->flow->listener, &peer);
        if (flow)
            count_arrival(receiver, flow, got);
    }
}

static void receive_from(struct receiver *receiver, struct arriving *flow)
{
    ssize_t got = recv(flow->fd, receiver->buffer, BUFFER_BYTES, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0) {
        count_arrival(receiver, flow, got);
    } else if (!got || (errno != EAGAIN && errno != EINTR)) {
        close(flow->fd);
        flow->fd = -1;
    }
}

/* Until the client says that it is over, or has gone. */
static int receive_all(struct receiver *receiver)
{
    bool is_udp = receiver->flow->options.test == TRACE_UDP;
    size_t room = receiver->count + 2;
    struct pollfd *polls = calloc(room, sizeof *polls);
    if (!polls)
        return fail(receiver->flow->why, "no memory");
    for (bool is_over = false; !is_over;) {
        nfds_t used = 0;
        polls[used++] = (struct pollfd){.fd = receiver->flow->control, .events = POLLIN};
        if (is_udp)
            polls[used++] = (struct pollfd){.fd = receiver->flow->listener, .events = POLLIN};
        for (size_t n = 0; !is_udp && n < receiver->count; n++)
            /* A negative descriptor is ignored. */
            polls[used++] = (struct pollfd){.fd = receiver->flows[n].fd, .events = POLLIN};
        if (poll(polls, used, -1) <= 0)
            continue;
        if (is_udp && polls[1].revents)
            receive_datagrams(receiver);
        for (size_t n = 0; !is_udp && n < receiver->count; n++)
            if (receiver->flows[n].fd >= 0 && polls[n + 1].revents)
                receive_from(receiver, &receiver->flows[n]);
        is_over = polls[0].revents != 0;
    }
    free(polls);
    return 0;
}

/* A connection to memcached, as it is installed: one of the host, which ends with our process group,
 * empty at the begin of each experiment. */
static int start_memcached(int64_t exp, struct failure *why)
{
    static int64_t last_exp;
    static struct sockaddr_un place = {.sun_family = AF_UNIX};
    static pid_t memcached;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), status = -1;
    pthread_mutex_lock(&turn);
    if (!memcached) {
        snprintf(place.sun_path, sizeof place.sun_path, "/tmp/netesto-memcached-%d", getpid());
        unlink(place.sun_path);
        memcached = fork();
        if (!memcached) {
            execlp("memcached", "memcached", "-u", "root", "-s", place.sun_path, "-U", "0", NULL);
            _exit(127);
        }
    }
    pthread_mutex_unlock(&turn);
    int64_t deadline = now() + CONNECT_TIMEOUT;
    while (fd >= 0 && memcached > 0 && status && now() < deadline) {
        status = connect(fd, (struct sockaddr *)&place, sizeof place);
        if (status && !waitpid(memcached, NULL, WNOHANG))
            sleep_until(now() + NS_PER_S / 50);
        else if (status)
            break;
    }
    pthread_mutex_lock(&turn);
    if (!status && last_exp != exp) {
        char reply[sizeof "OK\r\n"];
        last_exp = exp;
        status = write_all(fd, "flush_all\r\n", 11) || recv(fd, reply, 4, MSG_WAITALL) != 4 ? -1 : 0;
    }
    pthread_mutex_unlock(&turn);
    if (!status)
        return fd;
    if (fd >= 0)
        close(fd);
    return fail(why, "memcached does not start (in Debian: apt install memcached)");
}

/* Pass on what each of two connections sends, until one ends. */
static void relay(int one, int other)
{
    char buffer[4096];
    int ends[2] = {one, other};
    for (ssize_t got = 1; got > 0;) {
        struct pollfd polls[2] = {{.fd = one, .events = POLLIN}, {.fd = other, .events = POLLIN}};
        if (poll(polls, 2, -1) < 0)
            continue;
        for (int n = 0; n < 2 && got > 0; n++)
            if (polls[n].revents) {
                got = recv(ends[n], buffer, sizeof buffer, 0);
                if (got > 0 && write_all(ends[!n], buffer, (size_t)got))
                    got = -1;
            }
    }
}

/* Requests to this host's store, from one client. */
static int store_for(struct flow *flow)
{
    char line[LINE_MAX_BYTES];
    int fd = accept_one(flow, INT64_MAX);
    if (fd < 0)
        return -1;
    int status = 0;
    if (flow->options.memcached) {
        int store = start_memcached(flow->options.exp, flow->why);
        status = store < 0 ? -1 : 0;
        if (!status)
            relay(fd, store);
        if (!status)
            close(store);
    } else {
        status = keyvalue_serve_shared(fd, flow->options.exp, flow->why);
    }
    close(fd);
    /* "zero" and "end". */
    for (int n = 0; n < 2 && !status; n++)
        status = read_line(flow->control, line, sizeof line, now() + CONNECT_TIMEOUT, flow->why);
    return status ? -1 : say(flow->control, "done\n");
}

static int serve_trace(struct receiver *receiver)
{
    struct flow *flow = receiver->flow;
    int size = RECEIVE_BUFFER;
    bool is_tcp = flow->options.test == TRACE_TCP;
    char line[LINE_MAX_BYTES];
    if (flow->options.test == TRACE_KV)
        return store_for(flow);
    if (!is_tcp && setsockopt(flow->listener, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
        setsockopt(flow->listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (is_tcp) {
        struct sockaddr_storage local = flow->local;
        address_set_port(&local, 0);
        receiver->other = listen_on(&local, &flow->options, flow->why);
        if (receiver->other < 0)
            return -1;
        say(flow->control, "port %d\n", port_of(receiver->other));
    }
    if (learn(receiver) || (is_tcp && accept_all(receiver)) || receive_all(receiver))
        return -1;
    if (read_line(flow->control, line, sizeof line, now() + CONNECT_TIMEOUT, flow->why))
        return -1;
    for (size_t n = 0; n < receiver->count; n++) {
        const struct arriving *each = &receiver->flows[n];
        say(flow->control, "flow %d %d %lld %lld %lld\n", each->port, each->there,
            (long long)each->in_time, (long long)each->all, (long long)each->last);
    }
    if (!is_tcp)
        tell_windows(receiver->zero, flow->control);
    return say(flow->control, "done\n");
}

int trace_server(struct flow *flow, struct json *result)
{
    struct receiver receiver = {.flow = flow, .buffer = malloc(BUFFER_BYTES), .other = -1};
    struct processor_use before = processor_use();
    int status = receiver.buffer ? serve_trace(&receiver) : fail(flow->why, "no memory");
    json_number(result, "server_cpu_percent", processor_percent(before, processor_use()));
    for (size_t n = 0; n < receiver.count; n++)
        if (receiver.flows[n].fd >= 0)
            abort_connection(receiver.flows[n].fd);
    if (receiver.other >= 0)
        close(receiver.other);
    free(receiver.flows);
    free(receiver.buffer);
    return status;
}
