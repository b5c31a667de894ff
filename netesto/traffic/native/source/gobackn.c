/* GBN_MESSAGES: messages over UDP, as a reliable connection of an RDMA adapter carries writes
 * (InfiniBand Architecture Specification, volume 1, section 9.7: go back N).
 *
 * Packets are numbered over all messages. The receiver takes only the one that it expects. It drops a
 * later one and sends one NAK with the expected number; it drops an earlier one, and acknowledges again
 * what it has if that asked for it. The sender goes on from the number of a NAK, and goes back to the
 * oldest packet without acknowledgement if `rto` passes without progress. There is no congestion
 * control.
 */
#include "flow.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Every so many packets, and the last of a message, ask for an acknowledgement; a smaller window must
 * not wait for one that nobody asked for. */
#define ASK_EVERY 32
/* A flow with so many timeouts in a row has failed. */
#define TIMEOUTS_MAX 7
#define BATCH 64
/* For packets that arrive while the receiver does not run. */
#define RECEIVE_BUFFER (8 * 1024 * 1024)

enum form { DATA, DATA_ASKS, ACK, NAK };

/* The beginning of each packet, in network order. `number` is that of the packet; of an ACK or NAK, of
 * the packet that the receiver expects: it has all before. */
struct header {
    uint64_t number;
    uint32_t form, unused;
};
_Static_assert(sizeof(struct header) == GOBACKN_HEADER, "header");

/* How messages are cut into packets. */
struct cut {
    int64_t size, length, packets;
};

static struct cut cut_of(const struct options *options)
{
    int64_t length = options->length ? options->length : GOBACKN_LENGTH;
    return (struct cut){options->size, length, (options->size + length - 1) / length};
}

static int64_t bytes_of(const struct cut *cut, int64_t number)
{
    int64_t place = number % cut->packets;
    return place == cut->packets - 1 ? cut->size - place * cut->length : cut->length;
}

static bool asks(const struct cut *cut, int64_t window, int64_t number)
{
    int64_t every = window < ASK_EVERY ? window : ASK_EVERY;
    return (number + 1) % every == 0 || (number + 1) % cut->packets == 0;
}

static void make_room(int fd, int64_t requested)
{
    int buffer = RECEIVE_BUFFER;
    /* Above the kernel's limit, if permitted. */
    if (!requested && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
}

/* ---- the client */

int gobackn_open(struct gobackn *gobackn, const struct flow *flow)
{
    const struct options *options = &flow->options;
    struct cut cut = cut_of(options);
    struct sockaddr_storage local = flow->local;
    int yes = 1;
    if (cut.length > GOBACKN_LENGTH_MAX)
        return fail(flow->why, "packets of %lld bytes: 1 to %d are possible", (long long)cut.length,
                    GOBACKN_LENGTH_MAX);
    address_set_port(&local, (int)options->client_port);
    gobackn->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    gobackn->fd = datagram_socket(&local, &flow->peer, options, CLIENT, flow->why);
    if (gobackn->fd < 0)
        return -1;
    if (gobackn->timer < 0 ||
        setsockopt(gobackn->fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes))
        return fail_errno(flow->why, "SO_TIMESTAMPNS");
    make_room(gobackn->fd, options->local_buffer);
    gobackn->data = calloc(1, GOBACKN_HEADER + (size_t)cut.length);
    return gobackn->data ? 0 : fail(flow->why, "no memory");
}

void gobackn_close(struct gobackn *gobackn)
{
    if (gobackn->fd >= 0)
        close(gobackn->fd);
    if (gobackn->timer >= 0)
        close(gobackn->timer);
    free(gobackn->data);
}

/* Count `rto` from now on, or nothing if no packet waits for an acknowledgement. */
static void set_timeout(const struct gobackn *gobackn, const struct options *options)
{
    int64_t instant = gobackn->oldest < gobackn->top ? now() + options->rto : 0;
    struct itimerspec time = {.it_value = {instant / NS_PER_S, instant % NS_PER_S}};
    timerfd_settime(gobackn->timer, TFD_TIMER_ABSTIME, &time, NULL);
}

int gobackn_send(struct gobackn *gobackn, const struct flow *flow, struct record *records,
                 size_t begun)
{
    const struct options *options = &flow->options;
    struct cut cut = cut_of(options);
    bool was_idle = gobackn->oldest == gobackn->top;
    while (gobackn->next < (int64_t)begun * cut.packets &&
           gobackn->next - gobackn->oldest < options->window) {
        int64_t number = gobackn->next;
        struct record *record = &records[number / cut.packets];
        bool is_asking = asks(&cut, options->window, number);
        struct header header = {htobe64((uint64_t)number), htobe32(is_asking ? DATA_ASKS : DATA), 0};
        memcpy(gobackn->data, &header, sizeof header);
        if (!record->start)
            record->start = utc_now();
        ssize_t sent = send(gobackn->fd, gobackn->data,
                            GOBACKN_HEADER + (size_t)bytes_of(&cut, number), MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            wait_for(gobackn->fd, POLLOUT, INT64_MAX);
            continue;
        }
        /* A full queue loses the packet; an earlier one may have found no server. */
        if (sent < 0 && errno != ENOBUFS && errno != ECONNREFUSED && errno != EINTR)
            return fail_errno(flow->why, "send");
        record->retransmits += number < gobackn->top;
        gobackn->next++;
        if (gobackn->next > gobackn->top)
            gobackn->top = gobackn->next;
    }
    if (was_idle)
        set_timeout(gobackn, options);
    return 0;
}

/* Read one ACK or NAK, and when it arrived (UTC). False if there is none. */
static bool next_reply(int fd, struct header *header, int64_t *instant)
{
    for (;;) {
        char control[CMSG_SPACE(sizeof(struct timespec))];
        struct iovec part = {header, sizeof *header};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC);
        if (got < 0 && errno != EINTR && errno != ECONNREFUSED)
            return false;
        struct cmsghdr *stamp = got == GOBACKN_HEADER ? CMSG_FIRSTHDR(&message) : NULL;
        if (!stamp || stamp->cmsg_level != SOL_SOCKET || stamp->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        struct timespec time;
        memcpy(&time, CMSG_DATA(stamp), sizeof time);
        *instant = time.tv_sec * NS_PER_S + time.tv_nsec;
        return true;
    }
}

/* The receiver has all packets before `number`. */
static void acknowledge(struct gobackn *gobackn, const struct cut *cut, struct record *records,
                        int64_t number, int64_t instant)
{
    for (int64_t done = gobackn->oldest / cut->packets; done < number / cut->packets; done++) {
        records[done].took = instant - records[done].start;
        records[done].status = COMPLETE;
        gobackn->ended++;
    }
    gobackn->oldest = number;
    gobackn->timeouts = 0;
    if (gobackn->next < number)
        gobackn->next = number;
}

int gobackn_advance(struct gobackn *gobackn, const struct flow *flow, struct record *records,
                    size_t begun)
{
    struct cut cut = cut_of(&flow->options);
    struct header header;
    int64_t instant;
    uint64_t expired = 0;
    bool goes_on = false;
    while (next_reply(gobackn->fd, &header, &instant)) {
        uint64_t number = be64toh(header.number);
        enum form form = be32toh(header.form);
        /* Late ones, and what no server of ours sends. */
        if ((form != ACK && form != NAK) || number < (uint64_t)gobackn->oldest ||
            number > (uint64_t)gobackn->top)
            continue;
        goes_on |= form == NAK || (int64_t)number > gobackn->oldest;
        if ((int64_t)number > gobackn->oldest)
            acknowledge(gobackn, &cut, records, (int64_t)number, instant);
        if (form == NAK)
            gobackn->next = (int64_t)number;
    }
    bool is_late = read(gobackn->timer, &expired, sizeof expired) == sizeof expired;
    if (is_late && !goes_on && gobackn->oldest < gobackn->top) {
        if (++gobackn->timeouts == TIMEOUTS_MAX) {
            int64_t message = gobackn->oldest / cut.packets;
            records[message].status = FAILED;
            return fail(flow->why, "message %lld: no acknowledgement in %d timeouts of %g ms",
                        (long long)message + 1, TIMEOUTS_MAX, (double)flow->options.rto / 1e6);
        }
        gobackn->next = gobackn->oldest;
        goes_on = true;
    }
    if (gobackn_send(gobackn, flow, records, begun))
        return -1;
    if (goes_on)
        set_timeout(gobackn, &flow->options);
    return 0;
}

/* ---- the server */

struct taken {
    int64_t expected, bytes;
    bool has_said; /* that the expected one is missing */
    uint32_t dropped; /* by the kernel: the socket was full */
};

static void answer(const struct flow *flow, const struct sockaddr_storage *peer, int64_t expected,
                   enum form form)
{
    struct header header = {htobe64((uint64_t)expected), htobe32(form), 0};
    sendto(flow->listener, &header, sizeof header, MSG_DONTWAIT, (const struct sockaddr *)peer,
           address_size(peer));
}

static void take(const struct flow *flow, struct taken *taken, const struct cut *cut,
                 const struct header *header, int64_t size, const struct sockaddr_storage *peer)
{
    enum form form = be32toh(header->form);
    uint64_t number_told = be64toh(header->number);
    if ((form != DATA && form != DATA_ASKS) ||
        number_told >= (uint64_t)taken->expected + (uint64_t)flow->options.window)
        return;
    int64_t number = (int64_t)number_told;
    if (size != GOBACKN_HEADER + bytes_of(cut, number))
        return;
    if (number == taken->expected) {
        taken->expected++;
        taken->bytes += size - GOBACKN_HEADER;
        taken->has_said = false;
    }
    if (number > taken->expected) {
        if (!taken->has_said)
            answer(flow, peer, taken->expected, NAK);
        taken->has_said = true;
    } else if (form == DATA_ASKS) {
        answer(flow, peer, taken->expected, ACK);
    }
}

static void take_batch(const struct flow *flow, struct taken *taken, const struct cut *cut)
{
    struct header headers[BATCH];
    char controls[BATCH][CMSG_SPACE(sizeof(uint32_t))];
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
    /* MSG_TRUNC: only the header is read, the length is that of the whole packet. */
    int count = recvmmsg(flow->listener, messages, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
    for (int n = 0; n < count; n++) {
        struct cmsghdr *part = CMSG_FIRSTHDR(&messages[n].msg_hdr);
        if (part && part->cmsg_type == SO_RXQ_OVFL)
            memcpy(&taken->dropped, CMSG_DATA(part), sizeof taken->dropped);
        if (messages[n].msg_len >= GOBACKN_HEADER && is_same_host(&peers[n], &flow->peer))
            take(flow, taken, cut, &headers[n], messages[n].msg_len, &peers[n]);
    }
}

int gobackn_server(struct flow *flow, struct json *result)
{
    struct cut cut = cut_of(&flow->options);
    struct taken taken = {0};
    struct load_watch load;
    int yes = 1;
    setsockopt(flow->listener, SOL_SOCKET, SO_RXQ_OVFL, &yes, sizeof yes);
    make_room(flow->listener, flow->options.remote_buffer);
    load_watch_begin(&load, flow->listener);
    /* The client says "end". */
    while (wait_for_either(flow->listener, flow->control, INT64_MAX) &&
           !wait_for(flow->control, POLLIN, 0))
        take_batch(flow, &taken, &cut);
    json_number(result, "server_cpu_percent", load_watch_end(&load));
    json_integer(result, "server_received_bytes", taken.bytes);
    json_integer(result, "server_dropped", taken.dropped);
    return 0;
}
