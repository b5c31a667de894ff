/* UDP_STREAM: datagrams at absolute instants, and what became of them.
 *
 * A datagram has an instant, n / rate behind the first. One whose instant has passed by more than the
 * gap between two is skipped, not sent late with others: a sender that was kept from running never
 * sends a burst. Without a rate it sends as fast as the socket takes.
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
/* What is still under way when the sender has told its number: that long after the last arrival. */
#define DRAIN NS_PER_S
#define BATCH 64
/* Room for what arrives while the receiver does not run. */
#define RECEIVE_BUFFER (8 * 1024 * 1024)

/* The beginning of each datagram, in network order. */
struct header {
    uint64_t number, sent; /* `sent`: nanoseconds behind the first */
};
#define HEADER_BYTES sizeof(struct header)

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
    int status = data ? 0 : fail(flow->why, "no memory");
    if (options->start)
        sleep_until(options->start);
    struct processor_use before = processor_use();
    int64_t zero = now(), time = zero, last = zero, end = zero + options->omit + options->duration;
    tell_begun(zero);
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
                skipped++;
                continue;
            }
            if (times_add(&errors, due - zero, time - due))
                status = fail(flow->why, "no memory");
        } else if (time >= end) {
            break;
        }
        /* Numbers are those of datagrams that were sent: what was skipped was not lost. */
        struct header header = {htobe64((uint64_t)sent), htobe64((uint64_t)(now() - zero))};
        memcpy(data, &header, sizeof header);
        ssize_t put = send(fd, data, (size_t)length, MSG_DONTWAIT);
        if (put < 0 && errno == EAGAIN) {
            /* The socket is full: wait for room, and for what follows see above. */
            wait_for(fd, POLLOUT, end);
            put = send(fd, data, (size_t)length, MSG_DONTWAIT);
        }
        if (put >= 0) {
            sent++;
        } else if (errno == ENOBUFS || errno == EAGAIN) {
            refused++;
        } else if (errno != EINTR && errno != ECONNREFUSED) {
            status = fail_errno(flow->why, "send");
        }
        last = time = now();
        /* Not at each datagram: a look at the socket costs more than one at the clock. */
        if (!(slot & 255) && wait_for(flow->control, POLLIN, 0))
            status = fail(flow->why, "the server has ended");
    }
    json_number(result, "client_cpu_percent", processor_percent(before, processor_use()));
    json_integer(result, "sent", sent);
    json_integer(result, "skipped", skipped);
    json_integer(result, "refused", refused);
    json_integer(result, "length_bytes", length);
    json_integer(result, "sending_ns", last - zero);
    if (options->bitrate)
        json_latencies(result, &errors);
    say(flow->control, "end %lld\n", (long long)sent);
    if (!status)
        status = times_write(&errors, options->times, flow->why);
    close(fd);
    free(errors.items);
    free(data);
    return status;
}

/* What arrived. Jitter is that of RFC 3550, section 6.4.1. Reordered, as in RFC 4737, is what has a
 * smaller number than one that came before it. */
struct arrivals_seen {
    uint8_t *seen; /* a bit for each number */
    size_t seen_bytes;
    int64_t count, duplicates, reordered, greatest, bytes, first, last;
    double jitter;
    int64_t transit;
    int64_t *intervals;
    size_t interval_count;
};

static int note_arrival(struct arrivals_seen *seen, const struct options *options,
                        const struct header *header, int64_t time, int64_t size)
{
    int64_t number = (int64_t)be64toh(header->number);
    size_t byte = (size_t)number / 8;
    uint8_t bit = (uint8_t)(1u << (number % 8));
    if (number < 0 || number > 1LL << 36)
        return 0;
    if (byte >= seen->seen_bytes) {
        size_t bytes = seen->seen_bytes ? seen->seen_bytes : 4096;
        while (bytes <= byte)
            bytes *= 2;
        uint8_t *grown = realloc(seen->seen, bytes);
        if (!grown)
            return -1;
        memset(grown + seen->seen_bytes, 0, bytes - seen->seen_bytes);
        seen->seen = grown;
        seen->seen_bytes = bytes;
    }
    if (seen->seen[byte] & bit) {
        seen->duplicates++;
        return 0;
    }
    seen->seen[byte] |= bit;
    if (!seen->count)
        seen->first = time;
    seen->last = time;
    seen->count++;
    if (seen->count > 1 && number < seen->greatest)
        seen->reordered++;
    if (number > seen->greatest || seen->count == 1)
        seen->greatest = number;
    int64_t transit = time - (int64_t)be64toh(header->sent);
    if (seen->count > 1)
        seen->jitter += (fabs((double)(transit - seen->transit)) - seen->jitter) / 16;
    seen->transit = transit;
    int64_t passed = time - seen->first;
    if (passed >= options->omit && passed < options->omit + options->duration) {
        seen->bytes += size;
        seen->intervals[passed / options->interval] += size;
    }
    return 0;
}

/* Read what has arrived, with the kernel's times. Returns -1 without memory. */
static int receive_batch(int fd, struct arrivals_seen *seen, const struct options *options)
{
    static _Thread_local struct header headers[BATCH];
    static _Thread_local char controls[BATCH][CMSG_SPACE(sizeof(struct timespec))];
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    for (int n = 0; n < BATCH; n++) {
        parts[n] = (struct iovec){&headers[n], sizeof headers[n]};
        messages[n].msg_hdr = (struct msghdr){.msg_iov = &parts[n], .msg_iovlen = 1,
                                              .msg_control = controls[n],
                                              .msg_controllen = sizeof controls[n]};
    }
    /* MSG_TRUNC: the length is that of the datagram, of which only the header is read. */
    int count = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
    for (int n = 0; n < count; n++) {
        const struct cmsghdr *part = CMSG_FIRSTHDR(&messages[n].msg_hdr);
        struct timespec time;
        if (messages[n].msg_len < sizeof(struct header) || !part ||
            part->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&time, CMSG_DATA(part), sizeof time);
        if (note_arrival(seen, options, &headers[n], time.tv_sec * NS_PER_S + time.tv_nsec,
                         messages[n].msg_len))
            return -1;
    }
    return 0;
}

/* The number that the client says it sent, once it has said so; -1 if it is gone. */
static int64_t number_sent(const struct flow *flow)
{
    char line[LINE_MAX_BYTES];
    long long number;
    if (read_line(flow->control, line, sizeof line, now() + NS_PER_S, flow->why))
        return -1;
    return sscanf(line, "end %lld", &number) == 1 ? number : fail(flow->why, "%.200s", line);
}

int datagrams_server(struct flow *flow, struct json *result)
{
    const struct options *options = &flow->options;
    struct arrivals_seen seen = {0};
    int yes = 1, buffer = RECEIVE_BUFFER, status = 0;
    seen.interval_count =
        (size_t)((options->omit + options->duration + options->interval - 1) / options->interval);
    seen.intervals = calloc(seen.interval_count, sizeof *seen.intervals);
    if (!seen.intervals)
        return fail(flow->why, "no memory");
    if (setsockopt(flow->listener, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes))
        status = fail_errno(flow->why, "SO_TIMESTAMPNS");
    /* Beyond the limit of the kernel, if we may. */
    if (!options->remote_buffer &&
        setsockopt(flow->listener, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer))
        setsockopt(flow->listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    struct processor_use before = processor_use();
    int64_t sent = -1, limit = INT64_MAX, seen_before = 0;
    while (!status && (sent < 0 || seen.count < sent)) {
        if (sent < 0 ? !wait_for_either(flow->listener, flow->control, limit)
                     : !wait_for(flow->listener, POLLIN, limit))
            break;
        if (receive_batch(flow->listener, &seen, options))
            status = fail(flow->why, "no memory");
        if (sent < 0 && !status && wait_for(flow->control, POLLIN, 0)) {
            sent = number_sent(flow);
            status = sent < 0 ? -1 : 0;
            limit = now() + DRAIN;
        } else if (sent >= 0 && seen.count > seen_before) {
            limit = now() + DRAIN;
        }
        seen_before = seen.count;
    }
    json_number(result, "server_cpu_percent", processor_percent(before, processor_use()));
    json_integer(result, "server_received_bytes", seen.bytes);
    json_integer(result, "arrived", seen.count);
    json_integer(result, "lost", sent - seen.count);
    json_integer(result, "duplicates", seen.duplicates);
    json_integer(result, "reordered", seen.reordered);
    json_integer(result, "receiving_ns", seen.last - seen.first);
    json_number(result, "jitter_ns", seen.jitter);
    json_intervals(result, "server_received", seen.intervals, seen.interval_count);
    free(seen.seen);
    free(seen.intervals);
    return status;
}
