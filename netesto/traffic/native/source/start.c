/* The instant at which a flow begins. Everything is prepared before it; only the first byte remains
 * to be sent.
 *
 * With `hold=1`, the process that started the client sends the instant later, through the socket that
 * is the client's standard input:
 *
 *     client --- "ready"     ---> agent
 *     client <-- instant, ns ---- agent
 *     client --- "begun NS"  ---> agent
 */
#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STARTER STDIN_FILENO
#define BEGUN "begun %lld\n"
/* How long before its instant a flow finishes its preparation. */
#define APPROACH (5 * NS_PER_S / 1000)

/* Report that all is ready, and read the instant. Stops waiting if the server sends something, which
 * means that it failed; `control` is -1 if there is no server. */
static int learn_start(int control, int64_t *start, struct failure *why)
{
    char line[32], *end;
    size_t used = 0;
    struct pollfd polls[2] = {{.fd = STARTER, .events = POLLIN}, {.fd = control, .events = POLLIN}};
    if (write(STARTER, "ready\n", 6) != 6)
        return fail_errno(why, "standard input");
    while (!used || line[used - 1] != '\n') {
        if (poll(polls, 2, -1) < 0)
            continue;
        if (polls[1].revents)
            return fail(why, "the server has ended");
        ssize_t got = used < sizeof line ? read(STARTER, line + used, sizeof line - used) : 0;
        if (got <= 0)
            return fail(why, "ended before its start");
        used += (size_t)got;
    }
    *start = strtoll(line, &end, 10);
    return end == line || *start <= 0 ? fail(why, "invalid start") : 0;
}

int be_ready(struct flow *flow)
{
    return flow->options.hold ? learn_start(flow->control, &flow->options.start, flow->why) : 0;
}

/* Above that of samplers (collectors/sampling.py): those of all hosts of a lab sample at the same instants,
 * which takes milliseconds. An agent that is not root may set the lowest one only. */
#define PRIORITY_MOST 2

/* Run with real-time priority until the first byte is written: other flows start at the same instant,
 * and their agents have work then. Without permission the flow starts with normal priority. */
void hurry(bool does)
{
    struct sched_param priority = {.sched_priority = does ? PRIORITY_MOST : 0};
    if (sched_getscheduler(0) != (does ? SCHED_OTHER : SCHED_FIFO))
        return;
    while (sched_setscheduler(0, does ? SCHED_FIFO : SCHED_OTHER, &priority) && --priority.sched_priority > 0)
        ;
}

/* Sleep until shortly before the start, and read the load of the processors then. Already with
 * real-time priority: a late wakeup here would delay the start. */
struct processor_use approach(int64_t start)
{
    if (start) {
        hurry(true);
        sleep_until(start - APPROACH);
    }
    return processor_use();
}

void reach(int64_t start)
{
    if (!start)
        return;
    hurry(true);
    sleep_until(start);
}

void begin(struct flow *flow, int64_t instant)
{
    int64_t none = 0;
    if (atomic_compare_exchange_strong(&flow->begun, &none, instant) && flow->options.hold)
        dprintf(STARTER, BEGUN, (long long)instant);
    hurry(false);
}

/* For tools that cannot wait: execute `command` at the instant. */
int start_at(char **command)
{
    int64_t start;
    struct failure why;
    if (learn_start(-1, &start, &why)) {
        fprintf(stderr, "netesto-flow: %s\n", why.text);
        return 1;
    }
    reach(start);
    int64_t instant = now();
    /* The command must inherit what it would without this program. */
    hurry(false);
    prctl(PR_SET_TIMERSLACK, 0);
    dprintf(STARTER, BEGUN, (long long)instant);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, STARTER);
    execv(command[0], command);
    fprintf(stderr, "netesto-flow: %s: %s\n", command[0], strerror(errno));
    return 127;
}
