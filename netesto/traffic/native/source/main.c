/* netesto-flow: the traffic of one flow.
 *
 *     netesto-flow server PORT
 *     netesto-flow client ADDRESS PORT test=TCP_STREAM port=12900 duration=10 ...
 *     netesto-flow at COMMAND...
 *     netesto-flow store ADDRESS PORT
 *     netesto-flow version
 *
 * `at` is for other tools: it executes the command at its instant (start.c). A client prints one JSON
 * object per line: "interval" after each interval, "result" at the end; it reports its start as start.c
 * describes. If the flow failed, it prints a line on standard error and exits with status 1.
 */
#include "flow.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CONNECT_TIMEOUT (10 * NS_PER_S)
#define LAST_WORDS_TIMEOUT (NS_PER_S / 5)
#define READY_TIMEOUT (10 * NS_PER_S)
/* The timeout for results over a path whose queues the test has filled. The agent ends a client 15 s
 * after its test, without a reason. */
#define RESULTS_TIMEOUT (13 * NS_PER_S)

/* Send the options to the server and wait until it is ready. */
int agree(struct flow *flow, int count, char **words)
{
    char line[LINE_MAX_BYTES] = "netesto-flow " VERSION;
    size_t used = strlen(line);
    for (int n = 0; n < count && used < sizeof line; n++) {
        /* Its own address and paths are of no use to the other end, and ports may be others. */
        static const char *const OWN[] = {"local=", "times=", "trace=", "lines=", "port="};
        bool is_own = false;
        for (size_t each = 0; each < sizeof OWN / sizeof *OWN; each++)
            is_own = is_own || !strncmp(words[n], OWN[each], strlen(OWN[each]));
        if (!is_own)
            used += (size_t)snprintf(line + used, sizeof line - used, " %s", words[n]);
    }
    if (used < sizeof line)
        used += (size_t)snprintf(line + used, sizeof line - used, " port=%lld",
                                 (long long)flow->options.port);
    if (used + 1 >= sizeof line)
        return fail(flow->why, "too many options");
    if (say(flow->control, "%s\n", line))
        return fail_errno(flow->why, "control connection");
    if (read_line(flow->control, line, sizeof line, now() + READY_TIMEOUT, flow->why))
        return -1;
    if (!strcmp(line, "ready"))
        return 0;
    return fail(flow->why, "server: %.200s", line + (strncmp(line, "error ", 6) ? 0 : 6));
}

/* The server's results, an object without a newline at its end, or the reason of its failure. */
static int take_results(struct flow *flow, struct json *result)
{
    char *text = read_rest(flow->control, now() + RESULTS_TIMEOUT, flow->why);
    if (!text)
        return -1;
    size_t size = strlen(text);
    int status = 0;
    if (size >= 2 && text[0] == '{' && text[size - 1] == '}')
        json_members(result, text + 1, size - 2);
    else if (!strncmp(text, "error ", 6))
        status = fail(flow->why, "server: %.*s", (int)strcspn(text + 6, "\n"), text + 6);
    else
        status = fail(flow->why, "the server reported no results");
    free(text);
    return status;
}

/* If the server failed first, its reason says more than the failure that followed at the client. */
static void prefer_reason_of_server(struct flow *flow)
{
    char line[LINE_MAX_BYTES];
    struct failure none;
    if (!read_line(flow->control, line, sizeof line, now() + LAST_WORDS_TIMEOUT, &none) &&
        !strncmp(line, "error ", 6))
        fail(flow->why, "server: %.200s", line + 6);
}

static int client(const char *server, int port, int count, char **words, struct failure *why)
{
    struct flow flow = {.end = CLIENT, .control = -1, .listener = -1, .why = why};
    struct sockaddr_storage control;
    const struct options *options = &flow.options;
    if (options_parse(&flow.options, count, words, why) ||
        address_parse(server, port, &control, why))
        return -1;
    flow.word_count = count;
    flow.words = words;
    flow.peer = control;
    address_set_port(&flow.peer, (int)options->port);
    if (*options->local) {
        if (address_parse(options->local, 0, &flow.local, why))
            return -1;
    } else {
        flow.local.ss_family = control.ss_family;
    }
    if (pin_to(options->client_cpu, why))
        return -1;
    flow.control = connect_to(&flow.local, &control, NULL, now() + CONNECT_TIMEOUT, why);
    if (flow.control < 0)
        return -1;
    struct json result;
    if (json_open(&result, why))
        return -1;
    json_text(&result, "event", "result");
    json_text(&result, "test", KINDS[options->test].name);
    int status = agree(&flow, count, words);
    if (!status && KINDS[options->test].client(&flow, &result)) {
        status = -1;
        prefer_reason_of_server(&flow);
    }
    if (!status)
        status = take_results(&flow, &result);
    if (json_close(&result, why))
        status = -1;
    if (!status)
        puts(result.text);
    free(result.text);
    close(flow.control);
    return status;
}

int main(int count, char **words)
{
    struct failure why = {""};
    /* Otherwise the kernel wakes every sleeper up to 50 µs late, to save interrupts: prctl(2). */
    prctl(PR_SET_TIMERSLACK, 1);
    /* Threads do not allocate while they send: an area of memory for each would take 64 KiB. */
    mallopt(M_ARENA_MAX, 1);
    if (count > 2 && !strcmp(words[1], "at"))
        return start_at(words + 2);
    signal(SIGPIPE, SIG_IGN);
    if (count == 2 && !strcmp(words[1], "version")) {
        printf("netesto-flow %s\n", VERSION);
        return 0;
    }
    if (count == 3 && !strcmp(words[1], "server"))
        return serve(atoi(words[2]));
    if (count == 4 && !strcmp(words[1], "store")) {
        store_serve(words[2], atoi(words[3]), &why);
        fprintf(stderr, "netesto-flow: %s\n", why.text);
        return 1;
    }
    if (count < 4 || strcmp(words[1], "client")) {
        fprintf(stderr, "usage: netesto-flow server PORT | client ADDRESS PORT NAME=VALUE... | at COMMAND... | store ADDRESS PORT\n");
        return 2;
    }
    if (client(words[2], atoi(words[3]), count - 4, words + 4, &why)) {
        fprintf(stderr, "netesto-flow: %s\n", why.text);
        return 1;
    }
    return 0;
}
