/* Results: JSON objects of one line, the file of all times, and the load of the processors. */
#include "flow.h"

#include <errno.h>
#include <linux/tcp.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Begin an object in memory. */
int json_open(struct json *json, struct failure *why)
{
    *json = (struct json){0};
    json->file = open_memstream(&json->text, &json->size);
    if (!json->file)
        return fail(why, "no memory for the results");
    fputc('{', json->file);
    return 0;
}

/* The name of a value of one end, until the next call in this thread. */
const char *of_end(enum end end, const char *name)
{
    static _Thread_local char text[64];
    snprintf(text, sizeof text, "%s_%s", end == CLIENT ? "client" : "server", name);
    return text;
}

static void add_key(struct json *json, const char *key)
{
    fprintf(json->file, json->has_members ? ",\"%s\":" : "\"%s\":", key);
    json->has_members = true;
}

void json_integer(struct json *json, const char *key, int64_t value)
{
    add_key(json, key);
    fprintf(json->file, "%lld", (long long)value);
}

/* Infinity and NaN, which JSON does not have, are omitted. */
void json_number(struct json *json, const char *key, double value)
{
    if (!isfinite(value))
        return;
    add_key(json, key);
    fprintf(json->file, "%.17g", value);
}

void json_text(struct json *json, const char *key, const char *value)
{
    add_key(json, key);
    fputc('"', json->file);
    for (; *value; value++)
        if (*value == '"' || *value == '\\')
            fprintf(json->file, "\\%c", *value);
        else if ((unsigned char)*value >= ' ')
            fputc(*value, json->file);
    fputc('"', json->file);
}

/* Bytes in each interval, as a list. */
void json_intervals(struct json *json, const char *key, const int64_t *bytes, size_t count)
{
    add_key(json, key);
    fputc('[', json->file);
    for (size_t n = 0; n < count; n++)
        fprintf(json->file, n ? ",%lld" : "%lld", (long long)bytes[n]);
    fputc(']', json->file);
}

/* Append the members of another object: the text between its braces. */
void json_members(struct json *json, const char *members, size_t size)
{
    if (size)
        fprintf(json->file, ",%.*s", (int)size, members);
}

/* Complete the text, which is then to be freed. */
int json_close(struct json *json, struct failure *why)
{
    fputc('}', json->file);
    bool is_bad = ferror(json->file) != 0;
    return fclose(json->file) || is_bad ? fail(why, "no memory for the results") : 0;
}

/* Report progress: so much in an interval of this length. */
void tell_interval(const char *what, int64_t amount, int64_t length)
{
    printf("{\"event\":\"interval\",\"%s\":%lld,\"length_ns\":%lld}\n", what, (long long)amount,
           (long long)length);
    fflush(stdout);
}

/* The kernel's counters of this end's sockets, summed; the names are those of tcp_info. */
void json_tcp(struct json *json, enum end end, const int *sockets, int count)
{
    int64_t retransmits = 0, data_segments = 0, bytes_acked = 0;
    char control[16] = "";
    struct tcp_info info = {0};
    for (int n = 0; n < count; n++) {
        socklen_t size = sizeof info;
        if (getsockopt(sockets[n], IPPROTO_TCP, TCP_INFO, &info, &size))
            return;
        retransmits += info.tcpi_total_retrans;
        data_segments += info.tcpi_data_segs_out;
        bytes_acked += (int64_t)info.tcpi_bytes_acked;
    }
    socklen_t size = sizeof control;
    getsockopt(sockets[0], IPPROTO_TCP, TCP_CONGESTION, control, &size);
    control[sizeof control - 1] = '\0';
    json_integer(json, of_end(end, "retransmits"), retransmits);
    json_integer(json, of_end(end, "data_segments"), data_segments);
    json_integer(json, of_end(end, "bytes_acked"), bytes_acked);
    json_text(json, of_end(end, "congestion_control"), control);
    json_integer(json, of_end(end, "mss_bytes"), info.tcpi_snd_mss);
    json_integer(json, of_end(end, "min_rtt_us"), info.tcpi_min_rtt);
}

int times_add(struct times *times, int64_t start, int64_t took)
{
    if (times->count == times->room) {
        size_t room = times->room ? times->room * 2 : 4096;
        struct time *items = realloc(times->items, room * sizeof *items);
        if (!items)
            return -1;
        times->items = items;
        times->room = room;
    }
    times->items[times->count++] = (struct time){start, took};
    return 0;
}

static void write_number(FILE *file, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        putc_unlocked((int)(value & 0x7f) | 0x80, file);
    putc_unlocked((int)value, file);
}

/* docs/data-formats.md describes the file. Starts rise, so their differences are small numbers. */
int times_write(const struct times *times, const char *path, struct failure *why)
{
    if (!*path)
        return 0;
    FILE *file = fopen(path, "wxe");
    if (!file)
        return fail(why, "%.150s: %s", path, strerror(errno));
    fprintf(file, "netesto times 1 %zu\n", times->count);
    int64_t before = 0;
    for (size_t n = 0; n < times->count; n++) {
        write_number(file, (uint64_t)(times->items[n].start - before));
        write_number(file, (uint64_t)times->items[n].took);
        before = times->items[n].start;
    }
    bool is_bad = ferror(file) != 0;
    return fclose(file) || is_bad ? fail(why, "%.150s: %s", path, strerror(errno)) : 0;
}

/* Hyndman and Fan's type 7, numpy's default: linear interpolation at (count - 1) p. */
int64_t quantile_ns(const int64_t *sorted, size_t count, double p)
{
    double place = (double)(count - 1) * p;
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    double share = place - (double)below;
    return sorted[below] + llround(share * (double)(sorted[below + 1] - sorted[below]));
}

static int compare(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

void json_latencies(struct json *json, struct times *times)
{
    static const struct { const char *key; double p; } QUANTILES[] = {
        {"min_ns", 0}, {"p50_ns", .5}, {"p90_ns", .9}, {"p99_ns", .99}, {"p999_ns", .999},
        {"p9999_ns", .9999}, {"p99999_ns", .99999}, {"max_ns", 1}};
    json_integer(json, "count", (int64_t)times->count);
    int64_t *sorted = times->count ? malloc(times->count * sizeof *sorted) : NULL;
    if (!sorted)
        return;
    double sum = 0;
    for (size_t n = 0; n < times->count; n++) {
        sorted[n] = times->items[n].took;
        sum += (double)sorted[n];
    }
    qsort(sorted, times->count, sizeof *sorted, compare);
    json_number(json, "mean_ns", sum / (double)times->count);
    for (size_t n = 0; n < sizeof QUANTILES / sizeof QUANTILES[0]; n++)
        json_integer(json, QUANTILES[n].key, quantile_ns(sorted, times->count, QUANTILES[n].p));
    free(sorted);
}

/* proc(5), /proc/stat: the first line has user nice system idle iowait irq softirq steal (guest time
 * is in user) of all processors, then comes a line for each. */
struct processor_use processor_use(void)
{
    struct processor_use use = {.instant = now()};
    long long field[8];
    char line[LINE_MAX_BYTES];
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return use;
    while (fgets(line, sizeof line, file) && !strncmp(line, "cpu", 3)) {
        if (line[3] != ' ') {
            use.processors++;
            continue;
        }
        int count = sscanf(line + 3, "%lld %lld %lld %lld %lld %lld %lld %lld", &field[0], &field[1],
                           &field[2], &field[3], &field[4], &field[5], &field[6], &field[7]);
        for (int n = 0; n < count; n++)
            use.busy += n == 3 || n == 4 ? 0 : field[n];
    }
    fclose(file);
    return use;
}

/* The load of all processors; NaN if no tick passed. The elapsed time is that of the clock and not of
 * the ticks: each processor counts its idle ticks separately, and their sum jumps. */
double processor_percent(struct processor_use before, struct processor_use after)
{
    double took_s = (double)(after.instant - before.instant) / NS_PER_S;
    double ticks = took_s * (double)sysconf(_SC_CLK_TCK);
    if (ticks < 1 || !after.processors)
        return NAN;
    return fmin(100.0, 100.0 * (double)(after.busy - before.busy) / ticks / after.processors);
}

static void *await_first(void *argument)
{
    struct load_watch *watch = argument;
    if (wait_for(watch->fd, POLLIN, INT64_MAX)) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        watch->before = processor_use();
    }
    return NULL;
}

/* For a server: the load from the first data on, since clients connect long before their start. A
 * thread of its own reads it, so that this delays no data: with many processors it takes a while. */
void load_watch_begin(struct load_watch *watch, int fd)
{
    *watch = (struct load_watch){.fd = fd, .before = processor_use()};
    watch->runs = !pthread_create(&watch->thread, NULL, await_first, watch);
}

/* In percent, as processor_percent(). The descriptor must still be open. */
double load_watch_end(struct load_watch *watch)
{
    struct processor_use after = processor_use();
    if (watch->runs) {
        pthread_cancel(watch->thread);
        pthread_join(watch->thread, NULL);
        watch->runs = false;
    }
    return processor_percent(watch->before, after);
}
