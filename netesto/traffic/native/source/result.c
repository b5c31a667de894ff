/* Results: JSON objects of one line, the file of all times, and the load of the processors. */
#include "flow.h"

#include <errno.h>
#include <linux/tcp.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(struct json *json, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct json *json, const char *format, ...)
{
    for (;;) {
        va_list arguments;
        va_start(arguments, format);
        size_t room = json->room - json->used;
        int size = vsnprintf(json->text + json->used, room, format, arguments);
        va_end(arguments);
        if (size >= 0 && (size_t)size < room) {
            json->used += (size_t)size;
            return;
        }
        size_t wanted = json->room * 2 + LINE_MAX_BYTES;
        char *text = size < 0 || json->is_full ? NULL : realloc(json->text, wanted);
        if (!text) {
            json->is_full = true;
            return;
        }
        json->text = text;
        json->room = wanted;
    }
}

static void add_key(struct json *json, const char *key)
{
    bool is_first = json->used && json->text[json->used - 1] == '{';
    add(json, is_first ? "\"%s\":" : ",\"%s\":", key);
}

/* The first member is the name of the event; "": an object without one. */
void json_open(struct json *json, const char *event)
{
    json->used = 0;
    add(json, "{");
    if (*event)
        json_text(json, "event", event);
}

void json_integer(struct json *json, const char *key, int64_t value)
{
    add_key(json, key);
    add(json, "%lld", (long long)value);
}

/* Infinity and NaN, which JSON does not have, are omitted. */
void json_number(struct json *json, const char *key, double value)
{
    if (!isfinite(value))
        return;
    add_key(json, key);
    add(json, "%.17g", value);
}

void json_text(struct json *json, const char *key, const char *value)
{
    add_key(json, key);
    add(json, "\"");
    for (; *value; value++)
        if (*value == '"' || *value == '\\')
            add(json, "\\%c", *value);
        else if ((unsigned char)*value >= ' ')
            add(json, "%c", *value);
    add(json, "\"");
}

/* Bytes in each interval, as a list. */
void json_intervals(struct json *json, const char *key, const int64_t *bytes, size_t count)
{
    add_key(json, key);
    for (size_t n = 0; n < count; n++)
        add(json, n ? ",%lld" : "[%lld", (long long)bytes[n]);
    add(json, count ? "]" : "[]");
}

/* Append the members of another object: the text between its braces. */
void json_members(struct json *json, const char *members)
{
    if (*members)
        add(json, ",%s", members);
}

void json_close(struct json *json)
{
    add(json, "}");
}

void json_print(const struct json *json)
{
    printf("%s\n", json->text ? json->text : "");
    fflush(stdout);
}

void json_free(struct json *json)
{
    free(json->text);
    *json = (struct json){0};
}

/* The kernel's counters of this end's sockets, summed; the names are those of tcp_info. */
void json_tcp(struct json *json, const char *end, const int *sockets, int count)
{
    int64_t retransmits = 0, data_segments = 0, bytes_acked = 0;
    char key[64], control[16] = "";
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
    snprintf(key, sizeof key, "%s_retransmits", end);
    json_integer(json, key, retransmits);
    snprintf(key, sizeof key, "%s_data_segments", end);
    json_integer(json, key, data_segments);
    snprintf(key, sizeof key, "%s_bytes_acked", end);
    json_integer(json, key, bytes_acked);
    snprintf(key, sizeof key, "%s_congestion_control", end);
    json_text(json, key, control);
    snprintf(key, sizeof key, "%s_mss_bytes", end);
    json_integer(json, key, info.tcpi_snd_mss);
    snprintf(key, sizeof key, "%s_min_rtt_us", end);
    json_integer(json, key, info.tcpi_min_rtt);
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
