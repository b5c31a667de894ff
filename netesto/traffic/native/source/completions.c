/* TCP_FLOWS, TCP_MESSAGES and GBN_MESSAGES: how long sized transfers take, each from its first byte to the
 * acknowledgement of its last one.
 *
 * The kernel reports the second instant (SO_TIMESTAMPING, TX_ACK; Linux, networking/timestamping), in
 * the clock from which the first is read. A flow is a connection of its own, a message one write on a
 * lasting connection. Without a gap the next one begins when the previous one is complete. How
 * messages of GBN_MESSAGES are sent, gobackn.c says.
 */
#include "flow.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/tcp.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_TIMEOUT (10 * NS_PER_S)
/* After the last arrival: a transfer that is still incomplete then has failed. */
#define COMPLETION_TIMEOUT (30 * NS_PER_S)
#define EVENTS 256
#define AT_ONCE 32
/* Further flows wait to be accepted until others end, as if descriptors had run out. */
#define OPEN_MAX 65536
#define DESCRIPTORS_WAIT_MS 100

static const char *const STATUS[] = {"unfinished", "ok", "refused", "failed"};

/* A connection of the client. Messages `first` to `last`, exclusive, are in flight on it. */
struct transfer {
    int fd;
    bool is_connected, is_closed;
    size_t number, acknowledged;
    int64_t to_send;
    uint32_t retransmits;
};

struct sender {
    struct flow *flow;
    struct record *records;
    size_t begun, ended, room; /* messages have ended when they are complete, flows when closed */
    int64_t zero, next, end, last;
    uint64_t random;
    int epoll, timer;
    char *data;
    struct transfer *lasting;
    struct gobackn *gobackn;
    int port; /* of all transfers; 0: each has its own */
};

static int port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &size);
    /* At the same place in both families. */
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static uint32_t retransmits_of(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) ? 0 : info.tcpi_total_retrans;
}

/* Only a connected socket numbers its bytes from 0 (sock_set_timestamping in net/core/sock.c). */
static int ask_for_acknowledgements(int fd)
{
    int flags = SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
                SOF_TIMESTAMPING_OPT_TSONLY;
    return setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags);
}

/* Get the next acknowledgement that the kernel has timestamped: the number of its last byte, modulo
 * 2^32, and the instant. False if there is none. */
static bool next_acknowledgement(int fd, uint32_t *byte, int64_t *instant)
{
    char control[512];
    for (;;) {
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return false;
        const struct scm_timestamping *times = NULL;
        const struct sock_extended_err *error = NULL;
        for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part;
             part = CMSG_NXTHDR(&message, part)) {
            if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPING)
                times = (const void *)CMSG_DATA(part);
            else if ((part->cmsg_level == SOL_IP && part->cmsg_type == IP_RECVERR) ||
                     (part->cmsg_level == SOL_IPV6 && part->cmsg_type == IPV6_RECVERR))
                error = (const void *)CMSG_DATA(part);
        }
        if (times && error && error->ee_origin == SO_EE_ORIGIN_TIMESTAMPING &&
            error->ee_info == SCM_TSTAMP_ACK) {
            *byte = error->ee_data;
            *instant = times->ts[0].tv_sec * NS_PER_S + times->ts[0].tv_nsec;
            return true;
        }
    }
}

static struct record *begin_record(struct sender *sender)
{
    if (sender->begun == sender->room) {
        size_t room = sender->room ? sender->room * 2 : 1024;
        struct record *records = realloc(sender->records, room * sizeof *records);
        if (!records)
            return NULL;
        sender->records = records;
        sender->room = room;
    }
    struct record *record = &sender->records[sender->begun++];
    *record = (struct record){.port = (uint16_t)sender->port};
    return record;
}

/* Write as much as the kernel accepts. MSG_EOR keeps messages in packets of their own, because a
 * packet can carry only one timestamp. */
static void send_more(struct sender *sender, struct transfer *transfer)
{
    int64_t size = sender->flow->options.size;
    while (transfer->to_send > 0) {
        int64_t part = transfer->to_send % size ? transfer->to_send % size : size;
        struct record *record = &sender->records[sender->begun - 1 - (size_t)((transfer->to_send - 1) / size)];
        if (part == size || !record->start)
            record->start = utc_now();
        ssize_t sent = send(transfer->fd, sender->data, (size_t)part,
                            MSG_NOSIGNAL | MSG_DONTWAIT | MSG_EOR);
        if (sent < 0)
            return;
        transfer->to_send -= sent;
    }
}

static void send_flow(struct sender *sender, struct transfer *transfer)
{
    while (transfer->to_send > 0) {
        ssize_t sent = send(transfer->fd, sender->data, (size_t)transfer->to_send,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0)
            return;
        transfer->to_send -= sent;
    }
}

static void close_transfer(struct sender *sender, struct transfer *transfer)
{
    close(transfer->fd);
    sender->ended++;
    free(transfer);
}

/* Record acknowledgements; `transfer->acknowledged` counts complete messages. */
static void note_acknowledgements(struct sender *sender, struct transfer *transfer)
{
    size_t end = sender->lasting ? sender->begun : transfer->number + 1;
    uint32_t byte;
    int64_t instant, size = sender->flow->options.size;
    while (transfer->number + transfer->acknowledged < end &&
           next_acknowledgement(transfer->fd, &byte, &instant)) {
        while (transfer->number + transfer->acknowledged < end) {
            uint32_t last = (uint32_t)((int64_t)(transfer->acknowledged + 1) * size - 1);
            if ((int32_t)(byte - last) < 0)
                break;
            struct record *record = &sender->records[transfer->number + transfer->acknowledged];
            uint32_t retransmits = retransmits_of(transfer->fd);
            record->took = instant - record->start;
            record->retransmits = retransmits - transfer->retransmits;
            record->status = COMPLETE;
            transfer->retransmits = retransmits;
            transfer->acknowledged++;
            sender->ended += sender->lasting != NULL;
            sender->last = now();
        }
    }
}

/* The connection of a flow is established: its time counts from here. Returns -1 if the test ends. */
static int begin_data(struct sender *sender, struct transfer *transfer)
{
    if (ask_for_acknowledgements(transfer->fd))
        return fail_errno(sender->flow->why, "SO_TIMESTAMPING");
    transfer->is_connected = true;
    sender->records[transfer->number].start = utc_now();
    send_flow(sender, transfer);
    return 0;
}

static int begin_flow(struct sender *sender)
{
    const struct flow *flow = sender->flow;
    struct record *record = begin_record(sender);
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (!record || !transfer)
        return fail(flow->why, "no memory");
    transfer->number = sender->begun - 1;
    transfer->to_send = flow->options.size;
    transfer->fd = connect_begin(&flow->local, &flow->peer, &flow->options, flow->why);
    if (transfer->fd < 0)
        return -1;
    record->port = (uint16_t)port_of(transfer->fd);
    /* On one machine the handshake is complete by now. */
    if (wait_for(transfer->fd, POLLOUT, 0) == POLLOUT && begin_data(sender, transfer))
        return -1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET | (transfer->to_send ? EPOLLOUT : 0),
                                .data.ptr = transfer};
    return epoll_ctl(sender->epoll, EPOLL_CTL_ADD, transfer->fd, &event)
               ? fail_errno(flow->why, "epoll")
               : 0;
}

static int begin_message(struct sender *sender)
{
    if (!begin_record(sender))
        return fail(sender->flow->why, "no memory");
    if (sender->gobackn)
        return gobackn_send(sender->gobackn, sender->flow, sender->records, sender->begun);
    sender->lasting->to_send += sender->flow->options.size;
    send_more(sender, sender->lasting);
    return 0;
}

/* Whether another transfer remains to be started; its instant is `sender->next`, without a gap the end
 * of the previous one: until then `next` is when that began, or the end of the test. */
static bool has_next(const struct sender *sender)
{
    const struct options *options = &sender->flow->options;
    if (options->count && sender->begun >= (size_t)options->count)
        return false;
    return sender->next < sender->end;
}

static int set_timer(const struct sender *sender, int64_t instant)
{
    struct itimerspec time = {.it_value = {instant / NS_PER_S, instant % NS_PER_S}};
    return timerfd_settime(sender->timer, TFD_TIMER_ABSTIME, &time, NULL);
}

/* The time from one arrival to the next; of a Poisson process also from its start to the first. */
static int64_t gap_after(struct sender *sender)
{
    const struct options *options = &sender->flow->options;
    return options->arrivals == POISSON
               ? (int64_t)random_exponential(&sender->random, (double)options->gap)
               : options->gap;
}

/* Begin the transfers that are due, and set the timer for the next. If many are late, the timer
 * expires at once: connections that have ended are closed in between, which frees their ports. */
static int begin_due(struct sender *sender)
{
    const struct options *options = &sender->flow->options;
    for (int n = 0; n < AT_ONCE && has_next(sender) && sender->next <= now(); n++) {
        if (!options->gap && sender->ended < sender->begun)
            return set_timer(sender, sender->end);
        if (options->test == TCP_FLOWS ? begin_flow(sender) : begin_message(sender))
            return -1;
        if (options->gap)
            sender->next += gap_after(sender);
        else
            sender->next = now();
    }
    return has_next(sender) ? set_timer(sender, sender->next) : 0;
}

/* Handle the events of a connection. Returns -1 if the test ends. */
static int advance(struct sender *sender, struct transfer *transfer, uint32_t events)
{
    char buffer[64];
    if (!transfer->is_connected && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(transfer->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            sender->records[transfer->number].status = REFUSED;
            close_transfer(sender, transfer);
            return 0;
        }
        return begin_data(sender, transfer);
    }
    if (sender->lasting)
        send_more(sender, transfer);
    else if (transfer->is_connected)
        send_flow(sender, transfer);
    note_acknowledgements(sender, transfer);
    /* The server sends nothing; it only closes. */
    if (events & (EPOLLIN | EPOLLHUP)) {
        ssize_t got = recv(transfer->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        transfer->is_closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    }
    if (sender->lasting)
        return transfer->is_closed ? fail(sender->flow->why, "the server closed the connection") : 0;
    /* The server closes a connection first, when it has everything: the client's port stays free. */
    if (transfer->is_closed) {
        note_acknowledgements(sender, transfer);
        close_transfer(sender, transfer);
    }
    return 0;
}

/* Handle ACKs, NAKs and timeouts of GBN_MESSAGES. Returns -1 if the test ends. */
static int advance_messages(struct sender *sender)
{
    struct gobackn *gobackn = sender->gobackn;
    size_t ended = gobackn->ended;
    int status = gobackn_advance(gobackn, sender->flow, sender->records, sender->begun);
    if (gobackn->ended > ended)
        sender->last = now();
    sender->ended = gobackn->ended;
    return status;
}

static int loop(struct sender *sender)
{
    const struct options *options = &sender->flow->options;
    struct epoll_event events[EVENTS];
    int first = begin_due(sender);
    begin(sender->flow, sender->zero);
    if (first)
        return -1;
    int64_t limit = 0;
    for (;;) {
        if (!has_next(sender)) {
            if (sender->ended == sender->begun)
                return 0;
            if (!limit) {
                limit = now() + COMPLETION_TIMEOUT;
                set_timer(sender, limit);
            } else if (now() >= limit) {
                return 0;
            }
        }
        int count = epoll_wait(sender->epoll, events, EVENTS, -1);
        bool is_server_gone = false;
        for (int n = 0; n < count; n++) {
            if (events[n].data.ptr == &sender->timer) {
                uint64_t times;
                (void)!read(sender->timer, &times, sizeof times);
                if (!options->gap)
                    sender->next = now();
            } else if (events[n].data.ptr == sender) {
                is_server_gone = true;
            } else if (events[n].data.ptr == sender->gobackn) {
                if (advance_messages(sender))
                    return -1;
            } else if (advance(sender, events[n].data.ptr, events[n].events)) {
                return -1;
            }
        }
        if (is_server_gone)
            return fail(sender->flow->why, "the server has ended");
        if (has_next(sender) && (sender->next <= now() || !options->gap) && begin_due(sender))
            return -1;
    }
}

static int write_records(const struct sender *sender, const char *path)
{
    if (!*path)
        return 0;
    FILE *file = fopen(path, "wxe");
    if (!file)
        return fail(sender->flow->why, "%.150s: %s", path, strerror(errno));
    fprintf(file, "number,start_s,us,bytes,retransmits,status,port\n");
    for (size_t n = 0; n < sender->begun; n++) {
        const struct record *record = &sender->records[n];
        fprintf(file, "%zu,", n + 1);
        if (record->start)
            fprintf(file, "%lld.%09lld", (long long)(record->start / NS_PER_S),
                    (long long)(record->start % NS_PER_S));
        if (record->status == COMPLETE)
            fprintf(file, ",%lld.%03lld", (long long)(record->took / 1000),
                    (long long)(record->took % 1000));
        else
            fprintf(file, ",");
        fprintf(file, ",%lld,%u,%s,%u\n", (long long)sender->flow->options.size,
                record->retransmits, STATUS[record->status], record->port);
    }
    bool is_bad = ferror(file) != 0;
    return fclose(file) || is_bad ? fail(sender->flow->why, "%.150s: %s", path, strerror(errno)) : 0;
}

static void tell(struct sender *sender, struct json *result)
{
    struct times times = {0};
    int64_t retransmits = 0;
    for (size_t n = 0; n < sender->begun; n++) {
        const struct record *record = &sender->records[n];
        retransmits += record->retransmits;
        if (record->status == COMPLETE)
            times_add(&times, 0, record->took);
    }
    json_integer(result, "begun", (int64_t)sender->begun);
    json_integer(result, "failed", (int64_t)(sender->begun - times.count));
    json_integer(result, "client_retransmits", retransmits);
    json_integer(result, "elapsed_ns", sender->last - sender->zero);
    json_latencies(result, &times);
    free(times.items);
}

static int open_lasting(struct sender *sender)
{
    struct flow *flow = sender->flow;
    struct transfer *transfer = calloc(1, sizeof *transfer);
    struct sockaddr_storage local = flow->local;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = transfer};
    if (!transfer)
        return fail(flow->why, "no memory");
    sender->lasting = transfer;
    address_set_port(&local, (int)flow->options.client_port);
    transfer->fd = connect_to(&local, &flow->peer, &flow->options, now() + CONNECT_TIMEOUT, flow->why);
    if (transfer->fd < 0)
        return -1;
    transfer->is_connected = true;
    sender->port = port_of(transfer->fd);
    if (ask_for_acknowledgements(transfer->fd))
        return fail_errno(flow->why, "SO_TIMESTAMPING");
    return epoll_ctl(sender->epoll, EPOLL_CTL_ADD, transfer->fd, &event)
               ? fail_errno(flow->why, "epoll")
               : 0;
}

static int open_messages(struct sender *sender, struct gobackn *gobackn)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = gobackn};
    if (gobackn_open(gobackn, sender->flow))
        return -1;
    if (epoll_ctl(sender->epoll, EPOLL_CTL_ADD, gobackn->fd, &event) ||
        epoll_ctl(sender->epoll, EPOLL_CTL_ADD, gobackn->timer, &event))
        return fail_errno(sender->flow->why, "epoll");
    sender->gobackn = gobackn;
    sender->port = port_of(gobackn->fd);
    return 0;
}

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int completions_client(struct flow *flow, struct json *result)
{
    const struct options *options = &flow->options;
    struct sender sender = {.flow = flow, .random = (uint64_t)options->seed * 2 + 1,
                            .epoll = epoll_create1(EPOLL_CLOEXEC),
                            .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                            .data = calloc(1, (size_t)options->size)};
    struct gobackn gobackn = {.fd = -1, .timer = -1};
    struct epoll_event timer = {.events = EPOLLIN, .data.ptr = &sender.timer};
    struct epoll_event control = {.events = EPOLLIN, .data.ptr = &sender};
    int status = -1;
    raise_descriptors();
    if (sender.epoll < 0 || sender.timer < 0 || !sender.data ||
        epoll_ctl(sender.epoll, EPOLL_CTL_ADD, sender.timer, &timer) ||
        epoll_ctl(sender.epoll, EPOLL_CTL_ADD, flow->control, &control)) {
        fail(flow->why, "no memory or descriptors");
    } else if (options->test == TCP_FLOWS ||
               !(options->test == GBN_MESSAGES ? open_messages(&sender, &gobackn)
                                               : open_lasting(&sender))) {
        status = be_ready(flow);
        struct processor_use before = approach(options->start);
        reach(options->start);
        sender.zero = sender.next = sender.last = now();
        if (options->arrivals == POISSON)
            sender.next += gap_after(&sender);
        sender.end = options->duration ? sender.zero + options->duration : INT64_MAX;
        if (!status)
            status = loop(&sender);
        json_number(result, "client_cpu_percent", processor_percent(before, processor_use()));
        if (options->test == TCP_MESSAGES)
            json_tcp(result, CLIENT, &sender.lasting->fd, 1);
        tell(&sender, result);
        say(flow->control, "end\n");
        /* Also if a message of GBN_MESSAGES has failed, and the flow with it. */
        if ((!status || gobackn.timeouts) && write_records(&sender, options->times))
            status = -1;
    }
    if (sender.lasting) {
        if (sender.lasting->fd >= 0)
            abort_connection(sender.lasting->fd);
        free(sender.lasting);
    }
    gobackn_close(&gobackn);
    close(sender.epoll);
    close(sender.timer);
    free(sender.data);
    free(sender.records);
    return status;
}

/* ---- the server: reads, and closes a flow's connection when it is complete */

struct arrival {
    struct arrival *next, **link;
    int fd;
    int64_t left;
};

struct receiver {
    struct arrival *open;
    bool is_lasting;
    int64_t bytes, whole, count; /* `count`: open ones */
};

static void close_arrival(struct receiver *receiver, struct arrival *arrival)
{
    receiver->count--;
    *arrival->link = arrival->next;
    if (arrival->next)
        arrival->next->link = arrival->link;
    close(arrival->fd);
    free(arrival);
}

/* Read what has arrived; at the end of the connection close it and return false. */
static bool read_arrival(struct receiver *receiver, struct arrival *arrival)
{
    char buffer[256 * 1024];
    for (;;) {
        ssize_t got = recv(arrival->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got > 0) {
            receiver->bytes += got;
            arrival->left -= got;
            if (receiver->is_lasting || arrival->left > 0)
                continue;
            receiver->whole++;
        }
        close_arrival(receiver, arrival);
        return false;
    }
}

/* Accept waiting connections; false if some must keep waiting. */
static bool accept_arrivals(struct receiver *receiver, const struct flow *flow, int epoll)
{
    int fd;
    while (receiver->count < OPEN_MAX && (fd = accept_from_client(flow)) >= 0) {
        struct arrival *arrival = malloc(sizeof *arrival);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = arrival};
        if (!arrival) {
            close(fd);
            continue;
        }
        *arrival = (struct arrival){receiver->open, &receiver->open, fd, flow->options.size};
        if (arrival->next)
            arrival->next->link = &arrival->next;
        receiver->open = arrival;
        receiver->count++;
        /* A short flow has often arrived completely before it is accepted. */
        if (read_arrival(receiver, arrival) && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
            close_arrival(receiver, arrival);
    }
    return receiver->count < OPEN_MAX && errno == EAGAIN;
}

int completions_server(struct flow *flow, struct json *result)
{
    struct receiver receiver = {.is_lasting = flow->options.test == TCP_MESSAGES};
    struct epoll_event events[EVENTS];
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = &flow->listener};
    struct epoll_event control = {.events = EPOLLIN, .data.ptr = flow};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    raise_descriptors();
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, flow->listener, &listening) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, flow->control, &control)) {
        close(epoll);
        return fail_errno(flow->why, "epoll");
    }
    /* From the first data on: the client connects long before its start. */
    struct processor_use before = {0};
    for (bool is_over = false, is_full = false; !is_over;) {
        int count = epoll_wait(epoll, events, EVENTS, is_full ? DESCRIPTORS_WAIT_MS : -1);
        if (is_full && !epoll_ctl(epoll, EPOLL_CTL_ADD, flow->listener, &listening))
            is_full = false;
        for (int n = 0; n < count; n++) {
            void *what = events[n].data.ptr;
            if (what == flow)
                is_over = true;
            else if (what == &flow->listener)
                is_full = !accept_arrivals(&receiver, flow, epoll) &&
                          !epoll_ctl(epoll, EPOLL_CTL_DEL, flow->listener, NULL);
            else
                read_arrival(&receiver, what);
        }
        if (receiver.bytes && !before.instant)
            before = processor_use();
    }
    json_number(result, "server_cpu_percent",
                before.instant ? processor_percent(before, processor_use()) : NAN);
    json_integer(result, "server_received_bytes", receiver.bytes);
    if (!receiver.is_lasting)
        json_integer(result, "server_flows", receiver.whole);
    while (receiver.open)
        close_arrival(&receiver, receiver.open);
    close(epoll);
    return 0;
}
