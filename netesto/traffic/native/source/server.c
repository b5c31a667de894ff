/* The server: one process for all flows of a host, a thread for each. */
#include "flow.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTIONS_TIMEOUT (10 * NS_PER_S)
#define CLOSE_TIMEOUT (30 * NS_PER_S)
#define WORDS_MAX 64
/* More flows than any run has; each takes a thread, and up to some hundred megabytes. */
#define SESSIONS_MAX 4096
/* How long to wait until another thread closes a descriptor. */
#define DESCRIPTORS_WAIT (NS_PER_S / 10)

/* The flows of this process. */
static _Atomic int running;

/* Read the options of the flow, which a client of the same version sends in one line. */
static int read_options(struct flow *flow)
{
    char line[LINE_MAX_BYTES], *words[WORDS_MAX];
    if (read_line(flow->control, line, sizeof line, now() + OPTIONS_TIMEOUT, flow->why))
        return -1;
    int count = split(line, words, WORDS_MAX);
    if (count < 2 || strcmp(words[0], "netesto-flow"))
        return fail(flow->why, "this is netesto-flow, not another tool's server");
    if (strcmp(words[1], VERSION))
        return fail(flow->why, "the client speaks version %.20s, the server " VERSION, words[1]);
    return options_parse(&flow->options, count - 2, words + 2, flow->why);
}

static int open_data(struct flow *flow)
{
    const struct options *options = &flow->options;
    socklen_t size = sizeof flow->local;
    getsockname(flow->control, (struct sockaddr *)&flow->local, &size);
    address_unmap(&flow->local);
    address_set_port(&flow->local, (int)options->port);
    size = sizeof flow->peer;
    getpeername(flow->control, (struct sockaddr *)&flow->peer, &size);
    address_unmap(&flow->peer);
    flow->listener = KINDS[options->test].is_udp
                         ? datagram_socket(&flow->local, NULL, options, SERVER, flow->why)
                         : listen_on(&flow->local, options, flow->why);
    return flow->listener < 0 ? -1 : 0;
}

/* Closing a connection with unread data resets it, and the results would be lost. */
static void close_control(int control)
{
    char rest[256];
    int64_t deadline = now() + CLOSE_TIMEOUT;
    shutdown(control, SHUT_WR);
    while (wait_for(control, POLLIN, deadline) && recv(control, rest, sizeof rest, MSG_DONTWAIT) > 0)
        ;
    close(control);
}

static void *serve_flow(void *argument)
{
    struct failure why = {""};
    struct flow flow = {.end = SERVER, .control = (int)(intptr_t)argument, .listener = -1,
                        .why = &why};
    struct json result = {0};
    int status = read_options(&flow);
    if (!status)
        status = pin_to(flow.options.server_cpu, &why);
    if (!status)
        status = open_data(&flow);
    if (!status)
        status = json_open(&result, &why);
    if (!status) {
        if (!say(flow.control, "ready\n"))
            status = KINDS[flow.options.test].server(&flow, &result);
        if (json_close(&result, &why))
            status = -1;
        if (!status)
            write_all(flow.control, result.text, result.size);
    }
    if (status)
        say(flow.control, "error %s\n", why.text);
    if (flow.listener >= 0)
        close(flow.listener);
    close_control(flow.control);
    free(result.text);
    --running;
    return NULL;
}

int serve(int port)
{
    /* The second for a kernel without IPv6. */
    static const char *const EVERYWHERE[] = {"::", "0.0.0.0"};
    struct failure why;
    struct sockaddr_storage address;
    struct timeval patience = {.tv_sec = CLOSE_TIMEOUT / NS_PER_S};
    int listener = -1;
    for (int n = 0; n < 2 && listener < 0; n++)
        if (!address_parse(EVERYWHERE[n], port, &address, &why))
            listener = listen_on(&address, NULL, &why);
    if (listener < 0) {
        fprintf(stderr, "netesto-flow: %s\n", why.text);
        return 1;
    }
    for (;;) {
        int control = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (control < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                sleep_until(now() + DESCRIPTORS_WAIT);
                continue;
            }
            fprintf(stderr, "netesto-flow: accept: %s\n", strerror(errno));
            return 1;
        }
        keep_alive(control);
        /* A client that does not read must not block its thread for ever. */
        setsockopt(control, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        pthread_t thread;
        if (++running > SESSIONS_MAX ||
            pthread_create(&thread, NULL, serve_flow, (void *)(intptr_t)control)) {
            --running;
            say(control, "error the server cannot start another flow: %d run\n", running);
            close(control);
        } else {
            pthread_detach(thread);
        }
    }
}
