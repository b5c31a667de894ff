/* Options as words, `name=value`, on the command line and on the control connection. */
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct kind KINDS[TEST_COUNT + 1] = {
    [TCP_STREAM] = {"TCP_STREAM", stream, stream, .ends_by_reset = true},
    [TCP_MAERTS] = {"TCP_MAERTS", stream, stream, .ends_by_reset = true},
    [TCP_BIDI] = {"TCP_BIDI", stream, stream, .ends_by_reset = true},
    [TCP_RR] = {"TCP_RR", requests_client, requests_server, .ends_by_reset = true},
    [TCP_CRR] = {"TCP_CRR", requests_client, requests_server},
    [UDP_STREAM] = {"UDP_STREAM", datagrams_client, datagrams_server, .is_udp = true},
    [UDP_RR] = {"UDP_RR", requests_client, requests_server, .is_udp = true},
    [TCP_FLOWS] = {"TCP_FLOWS", completions_client, completions_server},
    [TCP_MESSAGES] = {"TCP_MESSAGES", completions_client, completions_server, .ends_by_reset = true},
    [GBN_MESSAGES] = {"GBN_MESSAGES", completions_client, gobackn_server, .is_udp = true},
    [KV_RR] = {"KV_RR", requests_client, requests_server, .ends_by_reset = true},
    [TRACE_TCP] = {"TRACE_TCP", trace_client, trace_server, .ends_by_reset = true},
    [TRACE_UDP] = {"TRACE_UDP", trace_client, trace_server, .is_udp = true},
    [TRACE_KV] = {"TRACE_KV", trace_client, trace_server, .ends_by_reset = true},
};
static const char *const ZEROCOPIES[] = {"0", "msg", "sendfile", NULL};
static const char *const ARRIVALS[] = {"constant", "poisson", NULL};

enum form { WHOLE, SECONDS, CHOICE, TEXT };

#define NO_LIMIT INT64_MAX
#define WEEK (7 * 24 * 3600 * NS_PER_S)
/* Both ends keep a value for each interval, and the server sends its own in one line. */
#define INTERVALS_MAX 1000000
#define MEMBER(member) offsetof(struct options, member)

/* SECONDS are written with up to 9 decimals and kept in nanoseconds. */
static const struct option {
    const char *name;
    enum form form;
    size_t offset;
    int64_t low, high;
    const char *const *choices; /* NULL: the tests */
} OPTIONS[] = {
    {"test", CHOICE, MEMBER(test), 0, 0, NULL},
    {"port", WHOLE, MEMBER(port), 1, 65535, NULL},
    {"client_port", WHOLE, MEMBER(client_port), 0, 65535, NULL},
    {"duration", SECONDS, MEMBER(duration), 0, WEEK, NULL},
    {"omit", SECONDS, MEMBER(omit), 0, WEEK, NULL},
    {"interval", SECONDS, MEMBER(interval), 1000000, WEEK, NULL},
    {"parallel", WHOLE, MEMBER(parallel), 1, 128, NULL},
    {"length", WHOLE, MEMBER(length), 0, 1 << 30, NULL},
    {"bitrate", WHOLE, MEMBER(bitrate), 0, NO_LIMIT, NULL},
    {"request", WHOLE, MEMBER(request), 1, 1 << 30, NULL},
    {"reply", WHOLE, MEMBER(reply), 1, 1 << 30, NULL},
    {"size", WHOLE, MEMBER(size), 1, 1 << 30, NULL},
    {"count", WHOLE, MEMBER(count), 0, 100000000, NULL},
    {"gap", SECONDS, MEMBER(gap), 0, WEEK, NULL},
    {"arrivals", CHOICE, MEMBER(arrivals), 0, 0, ARRIVALS},
    {"rate", WHOLE, MEMBER(rate), 0, 100000000, NULL},
    {"seed", WHOLE, MEMBER(seed), 0, NO_LIMIT, NULL},
    {"local_buffer", WHOLE, MEMBER(local_buffer), 0, 1 << 30, NULL},
    {"remote_buffer", WHOLE, MEMBER(remote_buffer), 0, 1 << 30, NULL},
    {"mss", WHOLE, MEMBER(mss), 0, 65535, NULL},
    {"dscp", WHOLE, MEMBER(dscp), -1, 63, NULL},
    {"zerocopy", CHOICE, MEMBER(zerocopy), 0, 0, ZEROCOPIES},
    {"skip_receive", WHOLE, MEMBER(skip_receive), 0, 1, NULL},
    {"pacing", WHOLE, MEMBER(pacing), 0, NO_LIMIT, NULL},
    {"get", WHOLE, MEMBER(get), 0, 1000000, NULL},
    {"ecn", WHOLE, MEMBER(ecn), 0, 1, NULL},
    {"window", WHOLE, MEMBER(window), 1, 65536, NULL},
    {"rto", SECONDS, MEMBER(rto), 1000, WEEK, NULL},
    {"hold", WHOLE, MEMBER(hold), 0, 1, NULL},
    {"memcached", WHOLE, MEMBER(memcached), 0, 1, NULL},
    {"exp", WHOLE, MEMBER(exp), 0, 1000000000, NULL},
    {"group", WHOLE, MEMBER(group), 0, 1000000000, NULL},
    {"client_cpu", TEXT, MEMBER(client_cpu), 0, 256, NULL},
    {"server_cpu", TEXT, MEMBER(server_cpu), 0, 256, NULL},
    {"congestion_control", TEXT, MEMBER(congestion_control), 0, 16, NULL},
    {"reverse_congestion_control", TEXT, MEMBER(reverse_congestion_control), 0, 16, NULL},
    {"local", TEXT, MEMBER(local), 0, 64, NULL},
    {"times", TEXT, MEMBER(times), 0, 1024, NULL},
    {"trace", TEXT, MEMBER(trace), 0, 1024, NULL},
    {"lines", TEXT, MEMBER(lines), 0, 1024, NULL},
};
#define OPTION_COUNT (sizeof OPTIONS / sizeof OPTIONS[0])

size_t count_intervals(const struct options *options)
{
    return (size_t)((options->omit + options->duration + options->interval - 1) / options->interval);
}

static int64_t *whole_of(struct options *options, const struct option *option)
{
    return (int64_t *)((char *)options + option->offset);
}

static bool parse_whole(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

/* "0.25" is 250000000. A binary fraction would not be exact. */
static bool parse_seconds(const char *text, int64_t *value)
{
    int64_t result = 0, unit = NS_PER_S;
    bool has_point = false;
    if (!*text || !strcmp(text, "."))
        return false;
    for (; *text; text++) {
        if (*text == '.' && !has_point) {
            has_point = true;
        } else if (*text < '0' || *text > '9' || (has_point && unit == 1) || result > WEEK * 10) {
            return false;
        } else if (has_point) {
            unit /= 10;
            result += (*text - '0') * unit;
        } else {
            result = result * 10 + (*text - '0') * NS_PER_S;
        }
    }
    *value = result;
    return true;
}

static bool parse_choice(const char *text, const struct option *option, int64_t *value)
{
    for (*value = 0;; ++*value) {
        const char *name = option->choices ? option->choices[*value] : KINDS[*value].name;
        if (!name || !strcmp(text, name))
            return name != NULL;
    }
}

static int parse_word(struct options *options, const char *word, struct failure *why)
{
    for (size_t n = 0; n < OPTION_COUNT; n++) {
        const struct option *option = &OPTIONS[n];
        size_t length = strlen(option->name);
        if (strncmp(word, option->name, length) || word[length] != '=')
            continue;
        const char *text = word + length + 1;
        if (option->form == TEXT) {
            if (strlen(text) >= (size_t)option->high)
                return fail(why, "option %s is longer than %d bytes", option->name,
                            (int)option->high - 1);
            strcpy((char *)options + option->offset, text);
            return 0;
        }
        int64_t value = 0;
        bool is_valid = option->form == CHOICE    ? parse_choice(text, option, &value)
                        : option->form == SECONDS ? parse_seconds(text, &value)
                                                  : parse_whole(text, &value);
        if (!is_valid || (option->form != CHOICE && (value < option->low || value > option->high)))
            return fail(why, "invalid option: %.100s", word);
        *whole_of(options, option) = value;
        return 0;
    }
    return fail(why, "unknown option: %.100s (is the other end of another version?)", word);
}

int options_parse(struct options *options, int count, char **words, struct failure *why)
{
    *options = (struct options){.interval = NS_PER_S / 5, .parallel = 1, .request = 1, .reply = 1,
                                .size = 1, .dscp = -1, .get = 900000, .window = 128,
                                .rto = NS_PER_S / 1000};
    for (int n = 0; n < count; n++)
        if (parse_word(options, words[n], why))
            return -1;
    if (!options->port)
        return fail(why, "the option port is required");
    if (options->arrivals == POISSON && !options->gap)
        return fail(why, "arrivals=poisson needs a gap, the mean time between two");
    bool has_count = KINDS[options->test].client == completions_client;
    if (has_count ? !options->count && !options->duration : !options->duration)
        return fail(why, "the option duration is required");
    if (!has_count && (options->omit + options->duration) / options->interval >= INTERVALS_MAX)
        return fail(why, "more than %d intervals", INTERVALS_MAX);
    return 0;
}
