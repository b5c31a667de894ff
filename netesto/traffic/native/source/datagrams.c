/* UDP_STREAM: datagrams at absolute instants: which were sent, lost, reordered or duplicated.
 *
 * The instant of datagram n is n / rate after the first. One that is late by more than the gap between
 * two is skipped, not sent in a burst with others, so that a sender that could not run never sends
 * bursts. Without a rate it sends as fast as the socket accepts.
 */
#include "flow.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LENGTH 1448
#define LARGEST 65507
/* For datagrams in flight when the sender reports its count: this long after the last arrival. */
#define DRAIN NS_PER_S
/* For copies, which closely follow their originals: this long after all have arrived. */
#define DRAIN_COPIES (NS_PER_S / 20)
/* More than any flow sends, and longer than any lasts: a datagram may contain anything. */
#define NUMBER_MAX (1LL << 40)
#define SENT_MAX (30LL * 24 * 3600 * NS_PER_S)
/* Arrivals up to so many numbers below the greatest can be distinguished from copies: at least two
 * seconds of datagrams at any rate, in 1 MiB. Later ones count as lost. */
#define WINDOW (1LL << 23)
#define BATCH 64
/* Room for datagrams that arrive while the receiver does not run. */
#define RECEIVE_BUFFER (8 * 1024 * 1024)

/* The beginning of each datagram, in network order. */
struct header {
    uint64_t number, sent; /* `sent`: nanoseconds after the first */
};
#define HEADER_BYTES sizeof(struct header)

static size_t interval_of(const struct options *options, int64_t passed, size_t count)
{
    size_t place = passed > 0 ? (size_t)(passed / options->interval) : 0;
    return place < count ? place : count - 1;
}

/* Only datagrams that are sent get numbers: a skipped one is not lost. */
static ssize_t put_datagram(int fd, char *data, int64_t length, int64_t number, int64_t zero,
                            int64_t *stamp)
{
    *stamp = now() - zero;
    struct header header = {htobe64((uint64_t)number), htobe64((uint64_t)*stamp)};
    memcpy(data, &header, sizeof header);
    return send(fd, data, (size_t)length, MSG_DONTWAIT);
}

int datagrams_client(struct flow *flow, struct json *result)
{
    const struct options *options = &flow->options;
    int64_t length = options->length ? options->length : DEFAULT_LENGTH;
    struct sockaddr_storage local = flow->local;
    if (length > LARGEST || length < (int64_t)HEADER_BYTES)
        return fail(flow->why, "datagrams of %lld bytes: %zu to %d are possible", (long long)length,
                    HEADER_BYTES, LARGEST);
    address_set_port(&local, (int)options->client_port);
    int fd = datagram_socket(&local, &flow->peer, options, CLIENT, flow->why);
    if (fd < 0)
        return -1;
    char *data = calloc(1, (size_t)length);
    struct times errors = {0};
    struct pacer pacer = {0};
    int64_t sent = 0, skipped = 0, refused = 0;
    size_t interval_count = count_intervals(options);
    int64_t *in_interval = calloc(interval_count, sizeof *in_interval);
    int status = data && in_interval ? 0 : fail(flow->why, "no memory");
    if (!status)
        status = be_ready(flow);
    struct processor_use before = approach(options->start);
    reach(options->start);
    int64_t zero = now(), time = zero, last = zero, end = zero + options->omit + options->duration;
    for (int64_t slot = 0; !status; slot++) {
        if (options->bitrate) {
            int64_t due = zero + (int64_t)((__int128)slot * length * 8 * NS_PER_S / options->bitrate);
            int64_t next =
                zero + (int64_t)((__int128)(slot + 1) * length * 8 * NS_PER_S / options->bitrate);
            if (due >= end)
                break;
            if (due > time)
                pace(&pacer, due);
            time = now();
            if (time > next) {
                /* Straight to the slot of this moment: a look at the clock for each of those before
                 * it makes a sender late again, and in simulated time the others, too. */
                int64_t passed = (time < end ? time : end) - zero;
                int64_t current =
                    (int64_t)((__int128)passed * options->bitrate / (length * 8 * NS_PER_S));
                current = current > slot ? current : slot + 1;
                skipped += current - slot;
                slot = current - 1;
                continue;
            }
            if (times_add(&errors, due - zero, time - due))
                status = fail(flow->why, "no memory");
        } else if (time >= end) {
            break;
        }
        int64_t stamp;
        ssize_t put = put_datagram(fd, data, length, sent, zero, &stamp);
        if (put < 0 && errno == EAGAIN) {
            /* The socket is full: wait for room; the datagrams that follow are late, see above. */
            wait_for(fd, POLLOUT, end);
            put = put_datagram(fd, data, length, sent, zero, &stamp);
        }
        if (!flow->begun)
            begin(flow, zero);
        if (put >= 0) {
            sent++;
            in_interval[interval_of(options, stamp, interval_count)]++;
        } else if (errno == ENOBUFS || errno == EAGAIN) {
            refused++;
        } else if (errno != EINTR && errno != ECONNREFUSED) {
            status = fail_errno(flow->why, "send");
        }
        last = time = now();
        /* Not for each datagram: polling the socket costs more than reading the clock. */
        if (!(slot & 255) && wait_for(flow->control, POLLIN, 0))
            status = fail(flow->why, "the server has ended");
    }
    /* A flow lasts for its duration, also if no further datagram is due in it. */
    if (!status && wait_for(flow->control, POLLIN, end))
        status = fail(flow->why, "the server has ended");
    json_number(result, "client_cpu_percent", processor_percent(before, processor_use()));
    json_integer(result, "sent", sent);
    json_integer(result, "skipped", skipped);
    json_integer(result, "refused", refused);
    json_integer(result, "length_bytes", length);
    json_integer(result, "sending_ns", last - zero);
    if (in_interval)
        json_intervals(result, "client_sent", in_interval, interval_count);
    if (options->bitrate)
        json_latencies(result, &errors);
    say(flow->control, "end %lld %lld\n", (long long)sent, (long long)(last - zero));
    if (!status)
        status = times_write(&errors, options->times, flow->why);
    close(fd);
    free(errors.items);
    free(in_interval);
    free(data);
    return status;
}

/* The datagrams of one interval of sending that arrived. Numbers rise with the time of sending: all
 * from `low` to `high` were sent in the interval, including those that were lost. */
struct span {
    int64_t low, high, low_sent, high_sent; /* number and sending time of the first and the last */
    int64_t arrived, duplicates, reordered, lost;
    int64_t least, most; /* transit */
    double transits, jitter; /* their sum, behind `least` of the flow; as it is after the last */
};

/* What arrived. Jitter is that of RFC 3550, section 6.4.1. Reordered is the singleton of RFC 4737,
 * section 3.3: a number smaller than one that arrived before it. A copy counts as duplicate only. A
 * transit counts from the start of the sender's flow: it is that instant on this clock plus the
 * one-way delay. */
struct arrivals_seen {
    uint8_t *seen; /* a bit for each number of the window, at the number modulo WINDOW */
    int64_t count, marked, greatest, bytes, first, last, transit, base;
    double jitter;
    int64_t *intervals;
    struct span *spans;
    size_t interval_count;
    int64_t ahead; /* system time, that of arrivals, minus the monotonic clock */
    uint32_t dropped; /* by the kernel: the socket was full, or the checksum was wrong */
};

/* What the kernel dropped of the datagrams of all sockets of this host. */
struct udp_errors {
    long long all, checksums;
};

/* RFC 4113, and /proc/net/snmp and snmp6 of Linux. Negative values are unknown. */
static struct udp_errors udp_errors(const struct flow *flow)
{
    bool is_4 = flow->local.ss_family == AF_INET;
    struct udp_errors found = {-1, -1};
    char names[1024] = "", values[1024], *rest_of_names, *rest;
    FILE *file = fopen(is_4 ? "/proc/net/snmp" : "/proc/net/snmp6", "re");
    while (file && fgets(values, sizeof values, file)) {
        if (!is_4) {
            sscanf(values, "Udp6InErrors %lld", &found.all);
            sscanf(values, "Udp6InCsumErrors %lld", &found.checksums);
        } else if (!strncmp(values, "Udp: ", 5)) {
            char *name = strtok_r(names, " \n", &rest_of_names);
            char *value = name ? strtok_r(values, " \n", &rest) : NULL;
            if (!name)
                memcpy(names, values, sizeof names);
            for (; name && value; name = strtok_r(NULL, " \n", &rest_of_names),
                                  value = strtok_r(NULL, " \n", &rest)) {
                if (!strcmp(name, "InErrors"))
                    found.all = strtoll(value, NULL, 10);
                else if (!strcmp(name, "InCsumErrors"))
                    found.checksums = strtoll(value, NULL, 10);
            }
        }
    }
    if (file)
        fclose(file);
    return found;
}

/* The bit of a number in the window, and its byte. */
static uint8_t *bit_of(const struct arrivals_seen *seen, int64_t number, uint8_t *bit)
{
    *bit = (uint8_t)(1u << (number % 8));
    return &seen->seen[number % WINDOW / 8];
}

/* Move the window up to this number: none above the greatest so far has arrived. */
static void advance(struct arrivals_seen *seen, int64_t number)
{
    uint8_t bit;
    int64_t next = seen->count ? seen->greatest + 1 : 0;
    if (number - next >= WINDOW) {
        memset(seen->seen, 0, WINDOW / 8);
        next = number + 1;
    }
    while (next <= number) {
        uint8_t *byte = bit_of(seen, next, &bit);
        bool is_whole = bit == 1 && number - next >= 7;
        *byte = is_whole ? 0 : *byte & (uint8_t)~bit;
        next += is_whole ? 8 : 1;
    }
    seen->greatest = number;
}

static void note_arrival(struct arrivals_seen *seen, const struct options *options,
                         const struct header *header, int64_t time, int64_t size)
{
    uint64_t number_told = be64toh(header->number), sent_told = be64toh(header->sent);
    if (number_told > NUMBER_MAX || sent_told > SENT_MAX)
        return;
    int64_t number = (int64_t)number_told, sent = (int64_t)sent_told;
    bool is_ahead = !seen->count || number > seen->greatest;
    if (!is_ahead && seen->greatest - number >= WINDOW)
        return;
    struct span *span = &seen->spans[interval_of(options, sent, seen->interval_count)];
    uint8_t bit, *byte = bit_of(seen, number, &bit);
    if (!is_ahead && *byte & bit) {
        span->duplicates++;
        return;
    }
    if (is_ahead)
        advance(seen, number);
    else
        span->reordered++;
    *byte |= bit;
    int64_t transit = time - seen->ahead - sent;
    if (!seen->count) {
        seen->first = time;
        seen->base = transit;
    } else {
        seen->jitter += (fabs((double)(transit - seen->transit)) - seen->jitter) / 16;
    }
    seen->transit = transit;
    seen->last = time;
    seen->count++;
    if (!span->arrived || number < span->low) {
        span->low = number;
        span->low_sent = sent;
    }
    if (!span->arrived || number > span->high) {
        span->high = number;
        span->high_sent = sent;
    }
    if (!span->arrived || transit < span->least)
        span->least = transit;
    if (!span->arrived || transit > span->most)
        span->most = transit;
    span->arrived++;
    span->transits += (double)(transit - seen->base);
    span->jitter = seen->jitter;
    int64_t passed = time - seen->first;
    if (passed >= options->omit && passed < options->omit + options->duration) {
        seen->bytes += size;
        seen->intervals[passed / options->interval] += size;
    }
}

/* A number and its sending time. */
struct sending {
    int64_t number, sent;
};

/* Count `first` to `last`, none of which arrived, in the intervals of their sending, which is assumed
 * to be evenly spaced between two known times. */
static void note_losses(struct arrivals_seen *seen, const struct options *options, int64_t first,
                        int64_t last, struct sending from, struct sending to)
{
    for (size_t n = interval_of(options, from.sent, seen->interval_count); first <= last; n++) {
        int64_t edge = (int64_t)(n + 1) * options->interval, next = last + 1;
        if (n + 1 < seen->interval_count && edge < to.sent) {
            __int128 ahead = (__int128)(edge - from.sent) * (to.number - from.number);
            int64_t length = to.sent - from.sent;
            next = from.number + (int64_t)((ahead + length - 1) / length);
        }
        if (next > last + 1)
            next = last + 1;
        if (next > first) {
            seen->spans[n].lost += next - first;
            first = next;
        }
    }
}

/* Count the losses among `sent` datagrams, the last of which was sent at `end`. */
static void note_all_losses(struct arrivals_seen *seen, const struct options *options, int64_t sent,
                            int64_t end)
{
    struct sending before = {0, 0};
    int64_t first = 0;
    for (size_t n = 0; n < seen->interval_count; n++) {
        struct span *span = &seen->spans[n];
        if (!span->arrived)
            continue;
        struct sending low = {span->low, span->low_sent};
        note_losses(seen, options, first, span->low - 1, before, low);
        /* Numbers rise with time: those of them that arrived were sent in this interval. */
        int64_t missing = span->high - span->low + 1 - span->arrived;
        span->lost += missing > 0 ? missing : 0;
        before = (struct sending){span->high, span->high_sent};
        first = span->high + 1;
    }
    note_losses(seen, options, first, sent - 1, before, (struct sending){sent - 1, end});
}

static void tell_spans(struct json *result, const struct arrivals_seen *seen)
{
    size_t count = seen->interval_count;
    int64_t *row = calloc(count, sizeof *row);
    if (!row)
        return;
#define TELL(key, value)                                                                           \
    do {                                                                                           \
        for (size_t n = 0; n < count; n++) {                                                       \
            const struct span *span = &seen->spans[n];                                             \
            row[n] = (int64_t)(value);                                                             \
        }                                                                                          \
        json_intervals(result, key, row, count);                                                   \
    } while (0)
    TELL("server_arrived", span->arrived);
    TELL("server_lost", span->lost);
    TELL("server_duplicates", span->duplicates);
    TELL("server_reordered", span->reordered);
    TELL("server_jitter_ns", llround(span->jitter));
    TELL("server_transit_min_ns", span->least);
    TELL("server_transit_mean_ns",
         span->arrived ? seen->base + llround(span->transits / (double)span->arrived) : 0);
    TELL("server_transit_max_ns", span->most);
#undef TELL
    free(row);
}

/* Read what has arrived from the client, with the kernel's times. */
static void receive_batch(const struct flow *flow, struct arrivals_seen *seen)
{
    static _Thread_local struct header headers[BATCH];
    static _Thread_local char
        controls[BATCH][CMSG_SPACE(sizeof(struct timespec)) + 2 * CMSG_SPACE(sizeof(uint32_t))];
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    struct sockaddr_storage peers[BATCH];
    for (int n = 0; n < BATCH; n++) {
        parts[n] = (struct iovec){&headers[n], sizeof headers[n]};
        messages[n].msg_hdr = (struct msghdr){.msg_name = &peers[n], .msg_namelen = sizeof peers[n],
                                              .msg_iov = &parts[n], .msg_iovlen = 1,
                                              .msg_control = controls[n],
                                              .msg_controllen = sizeof controls[n]};
    }
    /* MSG_TRUNC: only the header is read, the length is that of the whole datagram. */
    int count = recvmmsg(flow->listener, messages, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
    for (int n = 0; n < count; n++) {
        struct timespec time = {0};
        uint8_t class = 0;
        for (struct cmsghdr *part = CMSG_FIRSTHDR(&messages[n].msg_hdr); part;
             part = CMSG_NXTHDR(&messages[n].msg_hdr, part)) {
            if (part->cmsg_level == IPPROTO_IP)
                class = *CMSG_DATA(part);
            else if (part->cmsg_level == IPPROTO_IPV6)
                class = (uint8_t)*(const int *)CMSG_DATA(part);
            else if (part->cmsg_type == SCM_TIMESTAMPNS)
                memcpy(&time, CMSG_DATA(part), sizeof time);
            else if (part->cmsg_type == SO_RXQ_OVFL)
                memcpy(&seen->dropped, CMSG_DATA(part), sizeof seen->dropped);
        }
        if (messages[n].msg_len < sizeof(struct header) || !time.tv_sec ||
            !is_same_host(&peers[n], &flow->peer))
            continue;
        seen->marked += (class & 3) == 3;
        note_arrival(seen, &flow->options, &headers[n], time.tv_sec * NS_PER_S + time.tv_nsec,
                     messages[n].msg_len);
    }
}

/* How many datagrams the client reports that it sent, and how long that took, as soon as it does; -1
 * if it has gone. */
static int64_t number_sent(const struct flow *flow, int64_t *sending)
{
    char line[LINE_MAX_BYTES];
    long long number, length;
    if (read_line(flow->control, line, sizeof line, now() + NS_PER_S, flow->why))
        return -1;
    if (sscanf(line, "end %lld %lld", &number, &length) != 2 || number < 0 || number > NUMBER_MAX ||
        length < 0 || length > SENT_MAX)
        return fail(flow->why, "%.200s", line);
    *sending = length;
    return number;
}

/* System time minus the monotonic clock: the same until somebody sets the time, which the agent
 * notices. */
static int64_t system_ahead(void)
{
    struct timespec time;
    int64_t before = now();
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * NS_PER_S + time.tv_nsec - (before + now()) / 2;
}

int datagrams_server(struct flow *flow, struct json *result)
{
    const struct options *options = &flow->options;
    struct arrivals_seen seen = {.interval_count = count_intervals(options),
                                 .ahead = system_ahead()};
    struct udp_errors before = udp_errors(flow), after;
    int yes = 1, buffer = RECEIVE_BUFFER, status = 0;
    seen.intervals = calloc(seen.interval_count, sizeof *seen.intervals);
    seen.spans = calloc(seen.interval_count, sizeof *seen.spans);
    seen.seen = calloc(1, WINDOW / 8);
    if (!seen.intervals || !seen.spans || !seen.seen)
        status = fail(flow->why, "no memory");
    else if (setsockopt(flow->listener, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes))
        status = fail_errno(flow->why, "SO_TIMESTAMPNS");
    setsockopt(flow->listener, SOL_SOCKET, SO_RXQ_OVFL, &yes, sizeof yes);
    if (!status && options->ecn &&
        (flow->local.ss_family == AF_INET
             ? setsockopt(flow->listener, IPPROTO_IP, IP_RECVTOS, &yes, sizeof yes)
             : setsockopt(flow->listener, IPPROTO_IPV6, IPV6_RECVTCLASS, &yes, sizeof yes)))
        status = fail_errno(flow->why, "IP_RECVTOS");
    /* Above the kernel's limit, if permitted. */
    if (!options->remote_buffer &&
        setsockopt(flow->listener, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer))
        setsockopt(flow->listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    struct load_watch load;
    double percent = NAN;
    int64_t sent = -1, sending = 0, limit = INT64_MAX, seen_before = 0;
    load_watch_begin(&load, flow->listener);
    while (!status) {
        if (sent < 0 ? !wait_for_either(flow->listener, flow->control, limit)
                     : !wait_for(flow->listener, POLLIN, limit))
            break;
        receive_batch(flow, &seen);
        if (sent < 0 && wait_for(flow->control, POLLIN, 0)) {
            percent = load_watch_end(&load);
            sent = number_sent(flow, &sending);
            status = sent < 0 ? -1 : 0;
            seen_before = -1;
        }
        if (sent >= 0 && seen.count > seen_before)
            limit = now() + (seen.count < sent ? DRAIN : DRAIN_COPIES);
        seen_before = seen.count;
    }
    if (load.runs)
        load_watch_end(&load);
    json_number(result, "server_cpu_percent", percent);
    if (!status) {
        note_all_losses(&seen, options, sent, sending);
        json_integer(result, "server_received_bytes", seen.bytes);
        json_integer(result, "arrived", seen.count);
        json_integer(result, "receiving_ns", seen.last - seen.first);
        json_integer(result, "server_dropped", seen.dropped);
        after = udp_errors(flow);
        if (before.checksums >= 0 && before.all >= 0) {
            json_integer(result, "server_host_errors", after.all - before.all);
            json_integer(result, "server_host_checksum_errors", after.checksums - before.checksums);
        }
        if (options->ecn)
            json_integer(result, "marked", seen.marked);
        json_intervals(result, "server_received", seen.intervals, seen.interval_count);
        tell_spans(result, &seen);
    }
    free(seen.seen);
    free(seen.intervals);
    free(seen.spans);
    return status;
}
