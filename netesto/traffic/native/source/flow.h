/* Shared declarations of netesto-flow, which generates the traffic of one flow and measures it.
 *
 *   client                                server
 *     | control: one line of options  --->  |   (the client's own, word for word)
 *     | <---  "ready" or "error WHY"        |
 *     | control: "go"                 --->  |   (tests in which the server sends by itself)
 *     | data:    connections or datagrams   |
 *     | control: "end ..."            --->  |   (tests whose end the server cannot see)
 *     | <---  one line of results           |
 *
 * Times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef NETESTO_FLOW_H
#define NETESTO_FLOW_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

#define VERSION "4"
#define NS_PER_S 1000000000LL
#define LINE_MAX_BYTES 8192

enum test {
    TCP_STREAM, TCP_MAERTS, TCP_BIDI, TCP_RR, TCP_CRR, UDP_STREAM, UDP_RR, TCP_FLOWS, TCP_MESSAGES,
    KV_RR, TRACE_TCP, TRACE_UDP, TRACE_KV, GBN_MESSAGES, TEST_COUNT
};

enum zerocopy { COPY, MSG, SENDFILE };

enum arrivals { CONSTANT, POISSON };

/* The options of a flow, as on the command line and on the control connection. */
struct options {
    int64_t test, port, client_port, duration, omit, interval, parallel, length, bitrate;
    int64_t request, reply, size, count, gap, arrivals, rate, seed;
    int64_t local_buffer, remote_buffer, mss, dscp, zerocopy, skip_receive, pacing;
    int64_t get, ecn, hold, group, exp, memcached, window, rto;
    int64_t start; /* what be_ready() has heard; 0: at once */
    char congestion_control[16], reverse_congestion_control[16];
    char client_cpu[256], server_cpu[256]; /* 0,2,8-15 */
    char local[64], times[1024], trace[1024], lines[1024];
};

enum end { CLIENT, SERVER };

/* The reason of a failure. */
struct failure {
    char text[256];
};

/* A growing array of times: `start` counts from the flow's zero, `took` is a latency or an error. */
struct times {
    struct time { int64_t start, took; } *items;
    size_t count, room;
};

/* The state of either end of a flow. `control` is the connection to the other process. */
struct flow {
    enum end end; /* of this process */
    struct options options;
    struct sockaddr_storage local, peer; /* of the data; at the server `local` only */
    struct sockaddr_storage control_place;
    int control;
    int word_count; /* the client's options as it got them */
    char **words;
    int listener; /* the server's, of data */
    struct failure *why;
    _Atomic int64_t begun; /* when the client's first byte was written */
};

/* ---- options.c */
int options_parse(struct options *options, int count, char **words, struct failure *why);
size_t count_intervals(const struct options *options);

/* ---- clock.c */
int64_t now(void);
int64_t utc_now(void);
void sleep_until(int64_t instant);

/* Waits for instants as exactly as the machine can. The kernel wakes a sleeper late: it sleeps until
 * `margin` before the instant, then polls the clock. The margin adapts to the observed delays, so that
 * in simulated time, where no wakeup is late, nothing polls. */
struct pacer {
    int64_t margin;
};
void pace(struct pacer *pacer, int64_t instant);

/* Pseudo-random numbers, the same for equal seeds (xorshift64*, Vigna 2016). */
uint64_t random_next(uint64_t *state);
double random_exponential(uint64_t *state, double mean);

/* ---- start.c */
struct processor_use {
    int64_t busy; /* ticks */
    int processors;
    int64_t instant;
};
int be_ready(struct flow *flow);
struct processor_use approach(int64_t start);
void hurry(bool does);
void reach(int64_t start);
void begin(struct flow *flow, int64_t instant);
int start_at(char **command);

/* ---- net.c */
int fail(struct failure *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_errno(struct failure *why, const char *what);
int address_parse(const char *text, int port, struct sockaddr_storage *address, struct failure *why);
socklen_t address_size(const struct sockaddr_storage *address);
void address_unmap(struct sockaddr_storage *address);
void address_set_port(struct sockaddr_storage *address, int port);
int listen_on(const struct sockaddr_storage *address, const struct options *options,
              struct failure *why);
int datagram_socket(const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
                    const struct options *options, enum end end, struct failure *why);
int connect_begin(const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
                  const struct options *options, struct failure *why);
int connect_to(const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
               const struct options *options, int64_t deadline, struct failure *why);
int accept_from_client(const struct flow *flow);
void keep_alive(int fd);
bool is_same_host(const struct sockaddr_storage *one, const struct sockaddr_storage *other);
int accept_one(const struct flow *flow, int64_t deadline);
int set_nonblocking(int fd, bool is_nonblocking);
int wait_for(int fd, short events, int64_t deadline);
int wait_for_either(int fd, int other, int64_t deadline);
int write_all(int fd, const void *data, size_t size);
int read_line(int fd, char *line, size_t size, int64_t deadline, struct failure *why);
/* Cut a line at its blanks. Returns how many words it has, at the most `most`. */
int split(char *line, char **words, int most);
char *read_rest(int fd, int64_t deadline, struct failure *why);
int say(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
void abort_connection(int fd);
int pin_to(const char *cpus, struct failure *why);

/* ---- result.c */
/* One JSON object in one line. */
struct json {
    FILE *file;
    char *text;
    size_t size;
    bool has_members;
};
int json_open(struct json *json, struct failure *why);
void json_integer(struct json *json, const char *key, int64_t value);
void json_number(struct json *json, const char *key, double value);
void json_text(struct json *json, const char *key, const char *value);
void json_intervals(struct json *json, const char *key, const int64_t *bytes, size_t count);
void json_members(struct json *json, const char *members, size_t size);
int json_close(struct json *json, struct failure *why);
const char *of_end(enum end end, const char *name);
void tell_interval(const char *what, int64_t amount, int64_t length);
void json_tcp(struct json *json, enum end end, const int *sockets, int count);
void json_latencies(struct json *json, struct times *times);

int times_add(struct times *times, int64_t start, int64_t took);
int times_write(const struct times *times, const char *path, struct failure *why);
int64_t quantile_ns(const int64_t *sorted, size_t count, double p);

struct processor_use processor_use(void);
double processor_percent(struct processor_use before, struct processor_use after);

struct load_watch {
    pthread_t thread;
    bool runs;
    int fd;
    struct processor_use before;
};
void load_watch_begin(struct load_watch *watch, int fd);
double load_watch_end(struct load_watch *watch);

/* ---- the tests; each has a client and a server function, which return 0, or -1 with `why`. */
struct kind {
    const char *name;
    int (*client)(struct flow *flow, struct json *result);
    int (*server)(struct flow *flow, struct json *result);
    bool is_udp, ends_by_reset; /* what its connections still hold is then in no later flow's way */
};
extern const struct kind KINDS[TEST_COUNT + 1]; /* the last has no name */
int stream(struct flow *flow, struct json *result); /* either end */
int requests_client(struct flow *flow, struct json *result);
int requests_server(struct flow *flow, struct json *result);
int datagrams_client(struct flow *flow, struct json *result);
int datagrams_server(struct flow *flow, struct json *result);
int completions_client(struct flow *flow, struct json *result);
int completions_server(struct flow *flow, struct json *result);
int trace_client(struct flow *flow, struct json *result);
int trace_server(struct flow *flow, struct json *result);

/* ---- gobackn.c */
/* Of completions. */
enum status { UNFINISHED, COMPLETE, REFUSED, FAILED };

/* One line of completions.csv. `start` is UTC. */
struct record {
    int64_t start, took;
    uint32_t retransmits;
    uint16_t port;
    enum status status;
};

#define GOBACKN_HEADER 16
/* Bytes of a message in one packet: usually, and so that IP and UDP can carry it. */
#define GOBACKN_LENGTH 1024
#define GOBACKN_LENGTH_MAX (65507 - GOBACKN_HEADER)

/* The sender. All packets before `oldest` are acknowledged, `next` is sent next, and none from `top` on
 * has been sent. */
struct gobackn {
    int fd, timer, timeouts;
    int64_t oldest, next, top;
    size_t ended; /* messages */
    char *data;
};
int gobackn_open(struct gobackn *gobackn, const struct flow *flow);
void gobackn_close(struct gobackn *gobackn);
int gobackn_send(struct gobackn *gobackn, const struct flow *flow, struct record *records,
                 size_t begun);
int gobackn_advance(struct gobackn *gobackn, const struct flow *flow, struct record *records,
                    size_t begun);
int gobackn_server(struct flow *flow, struct json *result);

/* ---- keyvalue.c */
struct keyvalue {
    uint64_t random;
    size_t room;
    int64_t size, get_millionths, keys, gets, misses, exchanges, sent_bytes;
    char *request, *reply;
};
int keyvalue_open(struct keyvalue *keyvalue, const struct options *options, struct failure *why);
void keyvalue_close(struct keyvalue *keyvalue);
int keyvalue_exchange(struct keyvalue *keyvalue, int fd, struct failure *why);

/* ---- store.c */
#define STORE_KEY_MAX_BYTES 250
#define STORE_MAX_BYTES (256u << 20)
/* More than an item costs in addition to its value. */
#define STORE_ITEM_BYTES (STORE_KEY_MAX_BYTES + 128)
/* Answer requests until the connection ends, with values of this connection, or of all connections in
 * an experiment. */
int keyvalue_serve(int fd, struct failure *why);
int keyvalue_serve_shared(int fd, int64_t exp, struct failure *why);
/* A store for all who connect; it returns only if it fails. */
int store_serve(const char *address, int port, struct failure *why);

/* ---- main.c */
int agree(struct flow *flow, int count, char **words);

/* ---- server.c */
int serve(int port);

#endif
