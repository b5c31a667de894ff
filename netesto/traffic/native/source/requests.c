/* TCP_RR, TCP_CRR, UDP_RR, KV_RR: one request and its reply after the other; every latency is kept.
 *
 * With `rate`, requests have instants, and a latency counts from its request's instant even if the
 * previous reply was late: otherwise a stall would hide all requests that it delayed ("coordinated
 * omission").
 */
#include "flow.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_TIMEOUT (10 * NS_PER_S)
/* A datagram without a reply by then is lost. */
#define REPLY_TIMEOUT NS_PER_S
/* The most that is read at once; larger than any datagram. */
#define PIECE (1u << 20)
#define TIMES_MAX (1u << 26)

/* The client's end. `end` is when the last reply counts. */
struct requester {
    struct flow *flow;
    struct times times;
    struct pacer pacer;
    int64_t zero, end, lost;
    int64_t next_interval, told; /* when to report progress, and how many were reported */
    char *request, *reply;
    struct keyvalue keyvalue; /* of KV_RR, and how many of its bytes were reported */
    int64_t told_bytes;
};

/* The first request was sent. */
static void note_begin(struct requester *requester)
{
    if (!requester->flow->begun)
        begin(requester->flow, requester->zero);
}

/* Wait for the start, from which all times count. */
static void start_now(struct requester *requester)
{
    const struct options *options = &requester->flow->options;
    reach(options->start);
    requester->zero = now();
    requester->end = requester->zero + options->omit + options->duration;
    requester->next_interval = requester->zero + options->interval;
}

/* Wait for the instant of the next request. Returns it: the latency counts from it. -1 after the
 * end. */
static int64_t next_request(struct requester *requester, int64_t number)
{
    int64_t rate = requester->flow->options.rate;
    int64_t instant = now();
    if (rate) {
        int64_t due = requester->zero + (int64_t)((__int128)number * NS_PER_S / rate);
        if (due >= requester->end)
            return -1;
        if (due > instant)
            pace(&requester->pacer, due);
        instant = due;
    }
    return instant < requester->end ? instant : -1;
}

/* At the end of each interval: report how many replies arrived in it. */
static void tell_progress(struct requester *requester, int64_t time)
{
    const struct options *options = &requester->flow->options;
    if (time < requester->next_interval)
        return;
    int64_t count = (int64_t)requester->times.count, sent = requester->keyvalue.sent_bytes;
    int64_t passed = time - requester->next_interval + options->interval;
    if (options->test == KV_RR)
        tell_interval("bytes", sent - requester->told_bytes, passed);
    else
        tell_interval("transactions", count - requester->told, passed);
    requester->told = count;
    requester->told_bytes = sent;
    requester->next_interval = time + options->interval;
}

/* Transactions completed in each interval. */
static void tell_intervals(struct json *json, const struct requester *requester)
{
    const struct options *options = &requester->flow->options;
    size_t count = count_intervals(options);
    int64_t *transactions = calloc(count, sizeof *transactions);
    if (!transactions)
        return;
    for (size_t n = 0; n < requester->times.count; n++) {
        const struct time *time = &requester->times.items[n];
        size_t interval = (size_t)((time->start + time->took) / options->interval);
        transactions[interval < count ? interval : count - 1]++;
    }
    json_intervals(json, "client_transactions", transactions, count);
    free(transactions);
}

/* Keep a latency. A request sent before the end of `omit` does not count. */
static int keep(struct requester *requester, int64_t begin)
{
    int64_t end = now(), start = begin - requester->zero;
    tell_progress(requester, end);
    if (start < requester->flow->options.omit || end > requester->end)
        return 0;
    if (requester->times.count >= TIMES_MAX || times_add(&requester->times, start, end - begin))
        return fail(requester->flow->why, "more than %zu transactions: no memory",
                    requester->times.count);
    return 0;
}

/* Read `size` bytes and discard them, through a buffer of at most PIECE. Returns 1, 0 at the end of
 * the connection, -1 for an error. */
static int receive_all(int fd, char *buffer, size_t size)
{
    while (size) {
        ssize_t got = recv(fd, buffer, size < PIECE ? size : PIECE, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? 0 : -1;
        size -= (size_t)got;
    }
    return 1;
}

/* Write a request, not longer than until the end. The flow has begun when its first bytes are written. */
static bool send_request(struct requester *requester, int fd)
{
    size_t size = (size_t)requester->flow->options.request;
    for (size_t sent = 0; sent < size;) {
        ssize_t more = send(fd, requester->request + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (more >= 0) {
            note_begin(requester);
            sent += (size_t)more;
        } else if (errno == EAGAIN ? !wait_for(fd, POLLOUT, requester->end) : errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* One request and its reply: 1, 0 at the end of the connection, -1 for an error with its reason. */
static int exchange(struct requester *requester, int fd)
{
    const struct options *options = &requester->flow->options;
    if (options->test == KV_RR) {
        note_begin(requester);
        return keyvalue_exchange(&requester->keyvalue, fd, requester->flow->why);
    }
    if (!send_request(requester, fd))
        return 0;
    return receive_all(fd, requester->reply, (size_t)options->reply) > 0;
}

/* Interrupt calls that block on the connection. */
static void interrupt(union sigval connection)
{
    shutdown(connection.sival_int, SHUT_RDWR);
}

static int on_one_connection(struct requester *requester, int fd)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = interrupt,
                             .sigev_value.sival_int = fd};
    timer_t timer;
    int status = 0;
    int64_t begin;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer))
        return fail_errno(requester->flow->why, "cannot create a timer");
    start_now(requester);
    struct itimerspec end = {.it_value = {requester->end / NS_PER_S, requester->end % NS_PER_S}};
    timer_settime(timer, TIMER_ABSTIME, &end, NULL);
    for (int64_t n = 0; !status && (begin = next_request(requester, n)) >= 0; n++) {
        int exchanged = exchange(requester, fd);
        if (!exchanged && now() < requester->end)
            status = fail(requester->flow->why, "the connection ended before the test: %s",
                          strerror(errno));
        if (!exchanged)
            break;
        status = exchanged < 0 ? -1 : keep(requester, begin);
    }
    timer_delete(timer);
    return status;
}

static int on_many_connections(struct requester *requester)
{
    struct flow *flow = requester->flow;
    const struct options *options = &flow->options;
    int64_t begin;
    start_now(requester);
    for (int64_t n = 0; (begin = next_request(requester, n)) >= 0; n++) {
        int fd = connect_to(&flow->local, &flow->peer, options, requester->end, flow->why);
        note_begin(requester);
        if (fd < 0)
            return now() < requester->end ? -1 : 0;
        bool is_good = send_request(requester, fd);
        size_t got = 0;
        while (is_good && got < (size_t)options->reply && wait_for(fd, POLLIN, requester->end)) {
            size_t left = (size_t)options->reply - got;
            ssize_t more = recv(fd, requester->reply, left < PIECE ? left : PIECE, 0);
            is_good = more > 0;
            got += is_good ? (size_t)more : 0;
        }
        if (!is_good) {
            abort_connection(fd);
            return now() < requester->end ? fail(flow->why, "a connection ended before its reply") : 0;
        }
        int status = got == (size_t)options->reply ? keep(requester, begin) : 0;
        /* The server closes first, so that TIME_WAIT is at the server and not at the client. */
        if (wait_for(fd, POLLIN, requester->end))
            close(fd);
        else
            abort_connection(fd);
        if (status)
            return -1;
    }
    return 0;
}

/* A datagram begins with its number, or as much of it as fits. */
static size_t number_size(const struct options *options)
{
    int64_t smaller = options->request < options->reply ? options->request : options->reply;
    return smaller < (int64_t)sizeof(uint64_t) ? (size_t)smaller : sizeof(uint64_t);
}

static int by_datagrams(struct requester *requester, int fd)
{
    const struct options *options = &requester->flow->options;
    struct failure *why = requester->flow->why;
    int64_t begin;
    start_now(requester);
    for (uint64_t n = 0; (begin = next_request(requester, (int64_t)n)) >= 0; n++) {
        memcpy(requester->request, &n, number_size(options));
        if (send(fd, requester->request, (size_t)options->request, 0) < 0 && errno != ENOBUFS)
            return fail_errno(why, "send");
        note_begin(requester);
        int64_t limit = now() + REPLY_TIMEOUT;
        if (limit > requester->end)
            limit = requester->end;
        bool is_answered = false;
        while (!is_answered && wait_for(fd, POLLIN, limit)) {
            ssize_t got = recv(fd, requester->reply, PIECE, MSG_DONTWAIT);
            if (got < 0 && errno != EAGAIN && errno != EINTR)
                return fail_errno(why, "receive");
            /* Others are late replies to requests that timed out. */
            is_answered = got == options->reply &&
                          !memcmp(requester->reply, &n, number_size(options));
        }
        if (is_answered ? keep(requester, begin) : 0)
            return -1;
        if (!is_answered && now() < requester->end && begin - requester->zero >= options->omit)
            requester->lost++;
    }
    return 0;
}

int requests_client(struct flow *flow, struct json *result)
{
    const struct options *options = &flow->options;
    struct requester requester = {.flow = flow, .request = calloc(1, (size_t)options->request + 8),
                                  .reply = malloc(PIECE)};
    int fd = -1, status = 0;
    struct sockaddr_storage local = flow->local;
    address_set_port(&local, (int)options->client_port);
    if (!requester.request || !requester.reply)
        status = fail(flow->why, "no memory");
    else if (options->test == KV_RR)
        status = keyvalue_open(&requester.keyvalue, options, flow->why);
    if (!status && options->test != TCP_CRR) {
        fd = options->test == UDP_RR
                 ? datagram_socket(&local, &flow->peer, options, CLIENT, flow->why)
                 : connect_to(&local, &flow->peer, options, now() + CONNECT_TIMEOUT, flow->why);
        status = fd < 0 ? -1 : 0;
    }
    if (!status) {
        status = be_ready(flow);
        struct processor_use before = approach(options->start);
        if (!status)
            status = options->test == UDP_RR    ? by_datagrams(&requester, fd)
                     : options->test == TCP_CRR ? on_many_connections(&requester)
                                                : on_one_connection(&requester, fd);
        /* A flow lasts for its duration, also if no further request is due in it. */
        if (!status)
            sleep_until(requester.end);
        json_number(result, "client_cpu_percent", processor_percent(before, processor_use()));
        if (options->test == TCP_RR || options->test == KV_RR)
            json_tcp(result, CLIENT, &fd, 1);
        if (options->test == KV_RR) {
            json_integer(result, "sent_bytes", requester.keyvalue.sent_bytes);
            json_integer(result, "exchanges", requester.keyvalue.exchanges);
            json_integer(result, "gets", requester.keyvalue.gets);
            json_integer(result, "misses", requester.keyvalue.misses);
        }
        json_integer(result, "lost", requester.lost);
        json_latencies(result, &requester.times);
        tell_intervals(result, &requester);
        say(flow->control, "end\n");
        if (!status)
            status = times_write(&requester.times, options->times, flow->why);
    }
    if (fd >= 0)
        abort_connection(fd);
    free(requester.times.items);
    keyvalue_close(&requester.keyvalue);
    free(requester.request);
    free(requester.reply);
    return status;
}

static void serve_connection(const struct options *options, int fd, char *request,
                             const char *reply)
{
    while (receive_all(fd, request, (size_t)options->request) > 0)
        if (write_all(fd, reply, (size_t)options->reply) || options->test == TCP_CRR)
            return;
}

/* One after the other. Ends when the client says so or has gone. */
static void serve_connections(struct flow *flow, char *request, const char *reply)
{
    for (int fd; (fd = accept_one(flow, INT64_MAX)) >= 0; close(fd))
        serve_connection(&flow->options, fd, request, reply);
}

static void serve_datagrams(const struct flow *flow, char *request, char *reply)
{
    const struct options *options = &flow->options;
    while (wait_for_either(flow->listener, flow->control, INT64_MAX)) {
        struct sockaddr_storage peer;
        socklen_t peer_size = sizeof peer;
        ssize_t got = recvfrom(flow->listener, request, PIECE, MSG_DONTWAIT,
                               (struct sockaddr *)&peer, &peer_size);
        if (got < 0 && errno == EAGAIN && wait_for(flow->control, POLLIN, 0))
            return;
        if (got != options->request || !is_same_host(&peer, &flow->peer))
            continue;
        memcpy(reply, request, number_size(options));
        sendto(flow->listener, reply, (size_t)options->reply, MSG_DONTWAIT,
               (struct sockaddr *)&peer, peer_size);
    }
}

int requests_server(struct flow *flow, struct json *result)
{
    const struct options *options = &flow->options;
    /* Pages of the reply that are never written take no memory. */
    char *request = malloc(PIECE), *reply = calloc(1, (size_t)options->reply + 8);
    bool is_lasting = options->test == TCP_RR || options->test == KV_RR;
    struct load_watch load;
    double percent = NAN;
    int fd = flow->listener, status = request && reply ? 0 : fail(flow->why, "no memory");
    if (!status && is_lasting)
        status = (fd = accept_one(flow, now() + CONNECT_TIMEOUT)) < 0 ? -1 : 0;
    if (!status) {
        load_watch_begin(&load, fd);
        if (options->test == UDP_RR)
            serve_datagrams(flow, request, reply);
        else if (options->test == KV_RR)
            status = keyvalue_serve(fd, flow->why);
        else if (options->test == TCP_RR)
            serve_connection(options, fd, request, reply);
        else
            serve_connections(flow, request, reply);
        percent = load_watch_end(&load);
        if (is_lasting) {
            json_tcp(result, SERVER, &fd, 1);
            abort_connection(fd);
        }
    }
    json_number(result, "server_cpu_percent", percent);
    free(request);
    free(reply);
    return status;
}
