/* Sockets: addresses, options, waiting, and lines of text. */
#include "flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 4096
#define REST_MAX_BYTES (64u << 20)

int fail(struct failure *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return -1;
}

int fail_errno(struct failure *why, const char *what)
{
    return fail(why, "%s: %s", what, strerror(errno));
}

int address_parse(const char *text, int port, struct sockaddr_storage *address, struct failure *why)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
        v4->sin_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
        v6->sin6_family = AF_INET6;
    else
        return fail(why, "invalid address: %.60s", text);
    address_set_port(address, port);
    return 0;
}

socklen_t address_size(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

void address_set_port(struct sockaddr_storage *address, int port)
{
    /* The port is at the same place in both families. */
    ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

static int set_number(int fd, int level, int name, int value, const char *what, struct failure *why)
{
    return setsockopt(fd, level, name, &value, sizeof value) ? fail_errno(why, what) : 0;
}

static int drop_at_close(int fd)
{
    struct linger drop = {.l_onoff = 1, .l_linger = 0};
    return setsockopt(fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
}

/* Set the options of a flow's socket before it connects or listens; accepted ones inherit them. */
static int set_options(int fd, int family, const struct options *options, enum end end,
                       struct failure *why)
{
    /* The congestion control under test is that of the end that sends data; if both do, the
     * client's. */
    bool is_sender = (options->test == TCP_MAERTS) == (end == SERVER);
    const char *control =
        is_sender ? options->congestion_control : options->reverse_congestion_control;
    int64_t buffer = end == CLIENT ? options->local_buffer : options->remote_buffer;
    if (buffer && (set_number(fd, SOL_SOCKET, SO_SNDBUF, (int)buffer, "SO_SNDBUF", why) ||
                   set_number(fd, SOL_SOCKET, SO_RCVBUF, (int)buffer, "SO_RCVBUF", why)))
        return -1;
    /* The two lowest bits of a datagram are ECT(0), RFC 3168; for TCP the kernel sets them. */
    if (options->dscp >= 0 || options->ecn) {
        int value = (options->dscp >= 0 ? (int)options->dscp << 2 : 0) | (options->ecn ? 2 : 0);
        if (family == AF_INET ? set_number(fd, IPPROTO_IP, IP_TOS, value, "IP_TOS", why)
                              : set_number(fd, IPPROTO_IPV6, IPV6_TCLASS, value, "IPV6_TCLASS", why))
            return -1;
    }
    if (options->pacing) {
        uint64_t bytes_per_s = (uint64_t)options->pacing / 8;
        if (setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof bytes_per_s))
            return fail_errno(why, "SO_MAX_PACING_RATE");
    }
    if (KINDS[options->test].is_udp)
        return 0;
    /* Already now, because a process that is killed cannot do it at the end. */
    if (KINDS[options->test].ends_by_reset && drop_at_close(fd))
        return fail_errno(why, "SO_LINGER");
    if (*control &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)))
        return fail(why, "congestion control %s: %s", control, strerror(errno));
    if (options->mss && set_number(fd, IPPROTO_TCP, TCP_MAXSEG, (int)options->mss, "TCP_MAXSEG", why))
        return -1;
    /* Otherwise short requests wait for the acknowledgement of previous ones. */
    return set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY", why);
}

int set_nonblocking(int fd, bool is_nonblocking)
{
    int flags = fcntl(fd, F_GETFL);
    return fcntl(fd, F_SETFL, is_nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static int give_up(int fd)
{
    close(fd);
    return -1;
}

/* A socket for data; without `options` for the control connection. */
static int open_socket(int family, int type, const struct options *options, enum end end,
                       struct failure *why)
{
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_errno(why, "socket");
    if (set_number(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR", why) ||
        (options && set_options(fd, family, options, end, why)))
        return give_up(fd);
    return fd;
}

/* For control connections or, with `options`, data connections. */
int listen_on(const struct sockaddr_storage *address, const struct options *options,
              struct failure *why)
{
    int type = SOCK_STREAM | (options ? SOCK_NONBLOCK : 0);
    int fd = open_socket(address->ss_family, type, options, SERVER, why);
    int port = ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)address, address_size(address)) ||
                    listen(fd, BACKLOG))) {
        fail(why, "cannot listen on port %d: %s", port, strerror(errno));
        return give_up(fd);
    }
    return fd;
}

/* How many are ready; 0 after the deadline. */
static int poll_until(struct pollfd *polls, nfds_t count, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline - now();
        if (left < 0)
            left = 0;
        struct timespec timeout = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
        int ready = ppoll(polls, count, &timeout, NULL);
        if (ready > 0 || (ready == 0 && left == 0))
            return ready;
    }
}

bool is_same_host(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
    if (one->ss_family != other->ss_family)
        return false;
    if (one->ss_family == AF_INET)
        return ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)other)->sin_addr.s_addr;
    return !memcmp(&((const struct sockaddr_in6 *)one)->sin6_addr,
                   &((const struct sockaddr_in6 *)other)->sin6_addr, sizeof(struct in6_addr));
}

/* A data connection that has begun to connect, non-blocking; without `options` the control
 * connection. */
int connect_begin(const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
                  const struct options *options, struct failure *why)
{
    int yes = 1, fd = open_socket(peer->ss_family, SOCK_STREAM | SOCK_NONBLOCK, options, CLIENT, why);
    if (fd < 0)
        return -1;
    /* bind then does not search for a port that is free for all peers; connect takes one that is free
     * for this peer: ip(7). */
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    if (bind(fd, (const struct sockaddr *)local, address_size(local)))
        fail_errno(why, "cannot bind the flow's local address");
    else if (connect(fd, (const struct sockaddr *)peer, address_size(peer)) && errno != EINPROGRESS)
        fail_errno(why, "cannot connect");
    else
        return fd;
    return give_up(fd);
}

/* The same when it is connected, blocking. */
int connect_to(const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
               const struct options *options, int64_t deadline, struct failure *why)
{
    int fd = connect_begin(local, peer, options, why), error = 0;
    socklen_t size = sizeof error;
    if (fd < 0)
        return -1;
    if (!wait_for(fd, POLLOUT, deadline)) {
        fail(why, "cannot connect: no answer");
        return give_up(fd);
    }
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        fail(why, "cannot connect: %s", strerror(error));
        return give_up(fd);
    }
    set_nonblocking(fd, false);
    return fd;
}

/* Let a connection end if its peer has been silent for some minutes. */
void keep_alive(int fd)
{
    int yes = 1, seconds = 60;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

/* The next data connection of this flow's client, blocking. Waits no longer if the client has gone. */
int accept_one(const struct flow *flow, int64_t deadline)
{
    for (;;) {
        if (!wait_for_either(flow->listener, flow->control, deadline))
            return fail(flow->why, "no data connection: no answer");
        int fd = accept_from_client(flow);
        if (fd >= 0) {
            set_nonblocking(fd, false);
            return fd;
        }
        if (errno != EAGAIN)
            return fail_errno(flow->why, "accept");
        if (wait_for(flow->control, POLLIN, 0))
            return fail(flow->why, "the client has ended");
    }
}

/* A waiting data connection of this flow's client, non-blocking; those of other peers are closed. -1
 * with errno EAGAIN if there is none. */
int accept_from_client(const struct flow *flow)
{
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        int fd = accept4(flow->listener, (struct sockaddr *)&peer, &size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0 && is_same_host(&peer, &flow->peer)) {
            keep_alive(fd);
            return fd;
        }
        if (fd >= 0)
            close(fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            return -1;
    }
}

/* Wait until one of the two can be read; 0 after the deadline. */
int wait_for_either(int fd, int other, int64_t deadline)
{
    struct pollfd polls[2] = {{.fd = fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};
    return poll_until(polls, 2, deadline);
}

/* Wait until `fd` has one of the events or an error. Returns the events, 0 after the deadline. */
int wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd poll = {.fd = fd, .events = events};
    return poll_until(&poll, 1, deadline) ? poll.revents : 0;
}

int write_all(int fd, const void *data, size_t size)
{
    const char *next = data;
    while (size) {
        ssize_t written = send(fd, next, size, MSG_NOSIGNAL);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        next += written;
        size -= (size_t)written;
    }
    return 0;
}

/* A line without its newline, read byte by byte, because other code may read the next line. */
int read_line(int fd, char *line, size_t size, int64_t deadline, struct failure *why)
{
    for (size_t used = 0; used < size;) {
        if (!wait_for(fd, POLLIN, deadline))
            return fail(why, "the other end does not answer");
        ssize_t got = recv(fd, line + used, 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(why, "the other end closed the control connection%s%s", got ? ": " : "",
                        got ? strerror(errno) : "");
        if (line[used] == '\n') {
            line[used] = '\0';
            return 0;
        }
        used++;
    }
    return fail(why, "the other end sent a line of more than %zu bytes", size);
}

int split(char *line, char **words, int most)
{
    int count = 0;
    for (char *word = strtok_r(line, " ", &line); word && count < most;
         word = strtok_r(NULL, " ", &line))
        words[count++] = word;
    return count;
}

int say(int fd, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return size < 0 || (size_t)size >= sizeof line ? -1 : write_all(fd, line, (size_t)size);
}

/* Close a connection whose test is over. Unsent data is dropped: it would disturb the next flow. */
void abort_connection(int fd)
{
    drop_at_close(fd);
    close(fd);
}

/* Bind the calling thread, and those that it starts, to a list of processors such as "0,2,8-15". */
int pin_to(const char *cpus, struct failure *why)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (!*cpus)
        return 0;
    for (const char *next = cpus; *next;) {
        unsigned first, last;
        int size = 0;
        if (sscanf(next, "%u%n", &first, &size) != 1)
            return fail(why, "invalid list of processors: %.100s", cpus);
        next += size;
        last = first;
        if (*next == '-' && sscanf(next, "-%u%n", &last, &size) == 1)
            next += size;
        if ((*next && *next++ != ',') || last < first || last >= CPU_SETSIZE)
            return fail(why, "invalid list of processors: %.100s", cpus);
        for (unsigned cpu = first; cpu <= last; cpu++)
            CPU_SET(cpu, &set);
    }
    return sched_setaffinity(0, sizeof set, &set)
               ? fail(why, "processors %.100s: %s", cpus, strerror(errno))
               : 0;
}

/* A socket for datagrams; with a `peer`, only from and to it. */
int datagram_socket(const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
                    const struct options *options, enum end end, struct failure *why)
{
    int fd = open_socket(local->ss_family, SOCK_DGRAM, options, end, why);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)local, address_size(local)) ||
                    (peer && connect(fd, (const struct sockaddr *)peer, address_size(peer))))) {
        fail_errno(why, "cannot bind the flow's local address");
        return give_up(fd);
    }
    return fd;
}

/* Read until the other end closes. Returns a text, to be freed; NULL with `why`. */
char *read_rest(int fd, int64_t deadline, struct failure *why)
{
    char *text = NULL, part[LINE_MAX_BYTES];
    size_t size = 0, total = 0;
    FILE *file = open_memstream(&text, &size);
    bool is_heard = true;
    ssize_t got = 1;
    while (file && got > 0 && total < REST_MAX_BYTES && (is_heard = wait_for(fd, POLLIN, deadline))) {
        got = recv(fd, part, sizeof part, 0);
        total += fwrite(part, 1, got > 0 ? (size_t)got : 0, file);
    }
    if (!file || fclose(file) || (is_heard && got > 0))
        fail(why, "the other end's results do not fit into memory");
    else if (!is_heard)
        fail(why, "the other end's results did not arrive: the control connection is silent");
    else if (got < 0)
        fail(why, "the other end reported no results");
    else
        return text;
    free(text);
    return NULL;
}

/* Turn an IPv4-mapped IPv6 address (::ffff:192.0.2.1) into the IPv4 address. */
void address_unmap(struct sockaddr_storage *address)
{
    const struct sockaddr_in6 v6 = *(const struct sockaddr_in6 *)address;
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return;
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    memset(address, 0, sizeof *address);
    v4->sin_family = AF_INET;
    v4->sin_port = v6.sin6_port;
    memcpy(&v4->sin_addr, &v6.sin6_addr.s6_addr[12], sizeof v4->sin_addr);
}
