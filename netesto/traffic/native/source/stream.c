/* TCP_STREAM, TCP_MAERTS, TCP_BIDI: bulk data on one or more connections, a thread for each
 * direction of each. A server that sends begins when its client says "go".
 *
 * Goodput is what the receiver gets in a window of exactly `duration`, which begins `omit` after its
 * first byte. Later data does not count, and is dropped at the end of the test.
 */
#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define DEFAULT_LENGTH (128 * 1024)
/* More than a socket accepts or holds at once. */
#define LENGTH_MAX (4 * 1024 * 1024)
#define CONNECT_TIMEOUT (10 * NS_PER_S)
/* With a bitrate, a write is what is due in this time, but not less than a full segment. */
#define WRITE_TIME (NS_PER_S / 1000)
#define WRITE_MIN 1448
/* What arrives in this time is read by one call: a call for each packet costs more than the packet,
 * in a simulated world most of all. Less than READ_MIN is not worth a wait. */
#define READ_TIME (NS_PER_S / 500)
#define READ_MIN 4096
/* How long a sender waits for the word of the receiver: enough for a window that began late. */
#define DONE_TIMEOUT (30 * NS_PER_S)
/* What a client says to a receiving server if no byte was acknowledged while the flow lasted. The
 * server's window begins with the first byte: without any, it knows no other end. */
#define NOTHING "nothing"

/* Shared by the directions of one end. `zero` is the instant of the first byte received. */
struct receipt {
    _Atomic int64_t zero;
    _Atomic int64_t *intervals; /* bytes */
    size_t interval_count;
    _Atomic int64_t bytes;
};

struct direction {
    pthread_t thread;
    bool is_running;
    struct flow *flow;
    struct receipt *receipt;
    int fd;
    int64_t sent;
    struct failure why; /* without a text it has not failed */
    const _Atomic bool *is_over;
};

/* The size of one write, and of one read. */
static size_t length_of(const struct options *options)
{
    int64_t length = options->length ? options->length : DEFAULT_LENGTH;
    return (size_t)(length < LENGTH_MAX ? length : LENGTH_MAX);
}

/* The size of one write of a connection with a bitrate. */
static size_t paced_length_of(const struct options *options, int64_t rate)
{
    int64_t due = (int64_t)((__int128)rate * WRITE_TIME / 8 / NS_PER_S);
    if (options->length || due > DEFAULT_LENGTH)
        return length_of(options);
    return (size_t)(due > WRITE_MIN ? due : WRITE_MIN);
}

static void count_bytes(struct receipt *receipt, const struct options *options, int64_t time,
                        int64_t bytes)
{
    /* The first byte of another connection may have been read after this one and recorded earlier. */
    int64_t passed = time > receipt->zero ? time - receipt->zero : 0;
    if (passed >= options->omit + options->duration)
        return;
    receipt->intervals[passed / options->interval] += bytes;
    if (passed >= options->omit)
        receipt->bytes += bytes;
}

/* Whether an interval of the result ends within this time. */
static bool ends_soon(const struct options *options, int64_t passed, int64_t time)
{
    int64_t end = options->omit + options->duration;
    return options->interval - passed % options->interval < time || end - passed < time ||
           (passed < options->omit && options->omit - passed < time);
}

/* How much arrives. */
struct inflow {
    int64_t since;
    int64_t bytes;
    int64_t expected; /* bytes in READ_TIME, as they came before */
};

static void count_arrival(struct inflow *inflow, int64_t time, int64_t bytes)
{
    int64_t passed = time - inflow->since;
    inflow->bytes += bytes;
    if (passed < READ_TIME)
        return;
    inflow->expected = (int64_t)((__int128)inflow->bytes * READ_TIME / passed);
    inflow->since = time;
    inflow->bytes = 0;
}

static void *receive(void *argument)
{
    struct direction *direction = argument;
    const struct options *options = &direction->flow->options;
    struct receipt *receipt = direction->receipt;
    size_t size = length_of(options);
    char *buffer = malloc(size);
    struct inflow inflow = {0};
    struct timeval longest = {.tv_usec = READ_TIME / 1000};
    /* With MSG_TRUNC, tcp(7), the data is not copied. */
    int skip = options->skip_receive ? MSG_TRUNC : 0;
    /* A server cannot know when its client begins. */
    int64_t deadline = direction->flow->end == SERVER
                           ? INT64_MAX
                           : (options->start ? options->start : now()) + options->omit +
                                 options->duration;
    if (!buffer)
        fail(&direction->why, "no memory");
    /* A read that waits for more ends after READ_TIME; without this option it might last. */
    bool can_wait = !setsockopt(direction->fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    int64_t time = now();
    while (buffer) {
        /* What arrives before the end of an interval has to be read before it. */
        bool waits = can_wait && inflow.expected >= READ_MIN &&
                     !ends_soon(options, time - receipt->zero, 2 * READ_TIME);
        size_t part = waits && (size_t)inflow.expected < size ? (size_t)inflow.expected : size;
        int flags = skip | (waits ? MSG_WAITALL : MSG_DONTWAIT);
        ssize_t got = recv(direction->fd, buffer, part, flags);
        time = now();
        count_arrival(&inflow, time, got > 0 ? got : 0);
        if (got > 0) {
            int64_t none = 0;
            atomic_compare_exchange_strong(&receipt->zero, &none, time);
            deadline = receipt->zero + options->omit + options->duration;
            count_bytes(receipt, options, time, got);
            /* Nothing is left: to ask for more would be a system call for nothing. */
            if ((size_t)got < part) {
                wait_for(direction->fd, POLLIN, deadline);
                time = now();
            }
        } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (receipt->zero || direction->flow->end == CLIENT)
                wait_for(direction->fd, POLLIN, deadline);
            else if (wait_for_either(direction->fd, direction->flow->control, deadline) &&
                     !wait_for(direction->fd, POLLIN, 0)) {
                char word[sizeof NOTHING];
                if (recv(direction->flow->control, word, sizeof word, MSG_PEEK | MSG_DONTWAIT) !=
                        sizeof word ||
                    memcmp(word, NOTHING "\n", sizeof word))
                    fail(&direction->why, "the client has ended");
                break;
            }
        } else {
            /* Either the sender ended early, and reports why, or the test is over. */
            if (!*direction->is_over)
                fail(&direction->why, "the sender closed the connection%s%s",
                     got ? ": " : " before the end", got ? strerror(errno) : "");
            break;
        }
        if (now() >= deadline)
            break;
    }
    free(buffer);
    return NULL;
}

/* Read the completions of MSG_ZEROCOPY, which would otherwise fill the socket's memory. */
static void drain_errors(int fd)
{
    char control[256];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    while (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
        message.msg_controllen = sizeof control;
}

static ssize_t send_some(const struct direction *direction, int file, const char *buffer,
                         size_t size)
{
    int64_t way = direction->flow->options.zerocopy;
    if (way == SENDFILE) {
        off_t offset = 0;
        return sendfile(direction->fd, file, &offset, size);
    }
    return send(direction->fd, buffer, size,
                MSG_NOSIGNAL | MSG_DONTWAIT | (way == MSG ? MSG_ZEROCOPY : 0));
}

static void *transmit(void *argument)
{
    struct direction *direction = argument;
    const struct options *options = &direction->flow->options;
    /* The rate of a flow is that of all its connections together. */
    int64_t rate = options->bitrate / options->parallel;
    size_t size = rate ? paced_length_of(options, rate) : length_of(options);
    int file = memfd_create("netesto-flow", MFD_CLOEXEC);
    char *buffer = MAP_FAILED;
    int one = 1;
    if (file < 0 || ftruncate(file, (off_t)size) ||
        (buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0)) ==
            MAP_FAILED)
        fail_errno(&direction->why, "memory for the data");
    else if (options->zerocopy == MSG &&
             setsockopt(direction->fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one))
        fail_errno(&direction->why, "SO_ZEROCOPY");
    set_nonblocking(direction->fd, true);
    bool has_begun = direction->flow->end == SERVER;
    if (!has_begun)
        reach(options->start);
    int64_t zero = now(), time = zero;
    while (!*direction->why.text && !*direction->is_over) {
        size_t part = size - (size_t)direction->sent % size;
        if (rate) {
            /* The instant at which, at this rate, everything before this write has been sent. */
            int64_t due = zero + (int64_t)((__int128)direction->sent * 8 * NS_PER_S / rate);
            if (due > time) {
                /* No events: only the end of the test and completions interrupt the wait. */
                if (options->zerocopy == MSG)
                    drain_errors(direction->fd);
                wait_for(direction->fd, 0, due);
                time = now();
                continue;
            }
        }
        ssize_t sent = send_some(direction, file, buffer, rate ? part : size);
        if (!has_begun) {
            has_begun = true;
            begin(direction->flow, zero);
        }
        if (sent > 0) {
            direction->sent += sent;
        } else if (errno == EAGAIN || errno == ENOBUFS) {
            if (options->zerocopy == MSG)
                drain_errors(direction->fd);
            /* poll returns at once while the error queue is not empty; wait only for room to write. */
            wait_for(direction->fd, POLLOUT, INT64_MAX);
        } else if (errno != EINTR && !*direction->is_over) {
            fail_errno(&direction->why, "send");
        }
        time = now();
    }
    if (*direction->why.text)
        shutdown(direction->fd, SHUT_RDWR);
    if (buffer != MAP_FAILED)
        munmap(buffer, size);
    if (file >= 0)
        close(file);
    return NULL;
}

/* A thread for each connection. */
static bool start(struct direction *directions, void *(*work)(void *), struct flow *flow,
                  struct receipt *receipt, const int *sockets, const _Atomic bool *is_over)
{
    for (int n = 0; n < flow->options.parallel; n++) {
        struct direction *direction = &directions[n];
        *direction = (struct direction){.flow = flow, .receipt = receipt, .fd = sockets[n],
                                        .is_over = is_over};
        if (pthread_create(&direction->thread, NULL, work, direction)) {
            fail(flow->why, "cannot start a thread");
            return false;
        }
        direction->is_running = true;
    }
    return true;
}

static void join(struct direction *directions, int count)
{
    for (int n = 0; n < count; n++)
        if (directions[n].is_running)
            pthread_join(directions[n].thread, NULL);
}

static bool failed(const struct direction *directions, int count, struct failure *why)
{
    for (int n = 0; n < count; n++)
        if (*directions[n].why.text) {
            *why = directions[n].why;
            return true;
        }
    return false;
}

static int64_t bytes_acked(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) ? 0 : (int64_t)info.tcpi_bytes_acked;
}

static bool sends(const struct options *options, enum end end)
{
    return options->test == TCP_BIDI || (options->test == TCP_MAERTS) == (end == SERVER);
}

static bool receives(const struct options *options, enum end end)
{
    return options->test == TCP_BIDI || (options->test == TCP_MAERTS) == (end == CLIENT);
}

static void tell_receipt(struct json *json, const struct receipt *receipt, enum end end,
                         int64_t zero)
{
    /* With TCP_BIDI both ends receive. */
    json_integer(json, of_end(end, "received_bytes"), receipt->bytes);
    json_integer(json, of_end(end, "received_after_ns"), receipt->zero ? receipt->zero - zero : 0);
    json_intervals(json, of_end(end, "received"), (const int64_t *)receipt->intervals,
                   receipt->interval_count);
}

/* At the client, report after each interval how much was acknowledged or received in it. Stops early
 * if the other end sends something. */
static void progress(const struct flow *flow, const int *sockets, const struct receipt *receipt,
                     int64_t zero)
{
    const struct options *options = &flow->options;
    int64_t before = 0, end = zero + options->omit + options->duration;
    for (int64_t next = zero + options->interval; next <= end; next += options->interval) {
        int64_t bytes = 0;
        if (wait_for(flow->control, POLLIN, next))
            break;
        if (options->test == TCP_MAERTS)
            for (size_t n = 0; n < receipt->interval_count; n++)
                bytes += receipt->intervals[n];
        else
            for (int n = 0; n < options->parallel; n++)
                bytes += bytes_acked(sockets[n]);
        tell_interval("bytes", bytes - before, options->interval);
        before = bytes;
    }
}

/* At a client that sends, when its time is over. */
static void tell_if_nothing_arrived(const struct flow *flow, const int *sockets, int64_t end)
{
    int64_t bytes = 0;
    if (wait_for(flow->control, POLLIN, end))
        return;
    for (int n = 0; n < flow->options.parallel; n++)
        bytes += bytes_acked(sockets[n]);
    /* The kernel counts each SYN. */
    if (bytes <= flow->options.parallel)
        say(flow->control, NOTHING "\n");
}

/* The other end says this word, or why not. */
static int expect(const struct flow *flow, const char *word, int64_t deadline)
{
    char line[LINE_MAX_BYTES];
    do
        if (read_line(flow->control, line, sizeof line, deadline, flow->why))
            return -1;
    while (!strcmp(line, NOTHING));
    return strcmp(line, word) ? fail(flow->why, "%.200s", line) : 0;
}

/* Run one end of all connections of a flow. An end that receives stops by itself and informs the
 * other, which sends until then. */
static int run(struct flow *flow, const int *sockets, struct json *result)
{
    const struct options *options = &flow->options;
    enum end end = flow->end;
    int count = (int)options->parallel;
    struct receipt receipt = {.interval_count = count_intervals(options)};
    _Atomic bool is_over = false;
    struct direction *directions = calloc((size_t)count * 2, sizeof *directions);
    receipt.intervals = calloc(receipt.interval_count, sizeof *receipt.intervals);
    if (!directions || !receipt.intervals) {
        free(directions);
        free((void *)receipt.intervals);
        return fail(flow->why, "no memory");
    }
    struct direction *receivers = directions, *senders = directions + count;
    bool is_good = (!receives(options, end) ||
                    start(receivers, receive, flow, &receipt, sockets, &is_over)) &&
                   (!sends(options, end) ||
                    start(senders, transmit, flow, &receipt, sockets, &is_over));
    struct load_watch load;
    bool is_awaited = end == SERVER && !sends(options, SERVER);
    if (is_awaited)
        load_watch_begin(&load, sockets[0]);
    struct processor_use before = end == CLIENT ? approach(options->start) : processor_use();
    int64_t zero = now();
    if (is_good && end == CLIENT) {
        if (sends(options, SERVER)) {
            reach(options->start);
            zero = now();
            say(flow->control, "go\n");
            begin(flow, zero);
        } else {
            /* The sending threads set their own priority. */
            hurry(false);
            zero = options->start > zero ? options->start : zero;
        }
        progress(flow, sockets, &receipt, zero);
        if (sends(options, CLIENT))
            tell_if_nothing_arrived(flow, sockets, zero + options->omit + options->duration);
    }
    if (receives(options, end)) {
        join(receivers, count);
        is_good = is_good && !failed(receivers, count, flow->why);
        if (is_good)
            say(flow->control, "done\n");
    }
    /* An error at the sender counts only if the receiver has not reported that it has everything:
     * it may have closed already. */
    int64_t limit = zero + options->omit + options->duration + DONE_TIMEOUT;
    if (is_good && sends(options, end) && expect(flow, "done", limit)) {
        failed(senders, count, flow->why);
        is_good = false;
    }
    /* It bounds the receiver's window, by the client's clock. */
    if (is_good && end == CLIENT && sends(options, CLIENT))
        json_integer(result, "client_done_after_ns", now() - zero);
    json_number(result, of_end(end, "cpu_percent"),
                is_awaited ? load_watch_end(&load) : processor_percent(before, processor_use()));
    json_tcp(result, end, sockets, count);
    if (is_good && receives(options, end))
        tell_receipt(result, &receipt, end, zero);
    is_over = true;
    for (int n = 0; n < count; n++)
        shutdown(sockets[n], SHUT_RDWR);
    join(senders, count);
    free((void *)receipt.intervals);
    free(directions);
    return is_good ? 0 : -1;
}

int stream(struct flow *flow, struct json *result)
{
    const struct options *options = &flow->options;
    int count = (int)options->parallel, connected = 0, status = -1;
    int *sockets = calloc((size_t)count, sizeof *sockets);
    struct sockaddr_storage local = flow->local;
    while (sockets && connected < count) {
        int64_t deadline = now() + CONNECT_TIMEOUT;
        if (flow->end == CLIENT && options->client_port)
            address_set_port(&local, (int)options->client_port + connected);
        int fd = flow->end == CLIENT ? connect_to(&local, &flow->peer, options, deadline, flow->why)
                                     : accept_one(flow, deadline);
        if (fd < 0)
            break;
        sockets[connected++] = fd;
    }
    bool is_ready = sockets && connected == count;
    if (is_ready && flow->end == CLIENT)
        is_ready = !be_ready(flow);
    else if (is_ready && sends(options, SERVER))
        is_ready = !expect(flow, "go", INT64_MAX);
    if (is_ready)
        status = run(flow, sockets, result);
    while (connected)
        abort_connection(sockets[--connected]);
    free(sockets);
    return status;
}
