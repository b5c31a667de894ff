/* A store of keys and values in memory, for one client or for many: memcached's text protocol, with its
 * meta commands (doc/protocol.txt of memcached 1.6).
 *
 * Commands: get gets set add replace cas delete incr decr touch flush_all version verbosity quit; mg ms
 * md ma mn. Each connection has a thread. When the store is full it refuses values, and evicts none.
 */
#include "flow.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEY_MAX_BYTES STORE_KEY_MAX_BYTES
#define VALUE_MAX_BYTES (1u << 20)
/* A get of thousands of keys. */
#define COMMAND_MAX_BYTES (1u << 20)
#define INPUT_BYTES (VALUE_MAX_BYTES + COMMAND_MAX_BYTES)
/* Replies are collected up to this size, or until there is no more input. */
#define OUTPUT_BYTES 65536u
#define WORDS_MAX 32
#define CONNECTIONS_MAX 4096
#define FIRST_BUCKETS 1024u
/* Longer times are instants of the clock (protocol.txt, "Expiration times"). */
#define RELATIVE_MAX_S (30 * 24 * 3600)
/* A client that does not read must not block its thread for ever. */
#define CLIENT_TIMEOUT_S 30

#define BAD_FORMAT "CLIENT_ERROR bad command line format\r\n"
#define BAD_CHUNK "CLIENT_ERROR bad data chunk\r\n"
#define TOO_LARGE "SERVER_ERROR object too large for cache\r\n"
#define NO_MEMORY "SERVER_ERROR out of memory storing object\r\n"

/* ---- the values */

struct item {
    struct item *next; /* in its bucket */
    int64_t expires;   /* ns of the clock; 0: never */
    uint64_t version;  /* the "cas unique" of the protocol */
    uint32_t flags;
    size_t size;
    char key[KEY_MAX_BYTES + 1];
    char value[];
};

struct table {
    pthread_mutex_t turn;
    struct item **buckets;
    size_t bucket_count, count, bytes;
    uint64_t version;
    int64_t flush; /* when all values are dropped; 0: never */
};

/* That of all clients of this process in an experiment. */
static struct table shared = {.turn = PTHREAD_MUTEX_INITIALIZER};

static int64_t clock_ns(void)
{
    struct timespec instant;
    clock_gettime(CLOCK_REALTIME, &instant);
    return instant.tv_sec * NS_PER_S + instant.tv_nsec;
}

/* When a value expires that is to live so long; an instant that has passed if at once. */
static int64_t expiry(int64_t seconds)
{
    if (!seconds)
        return 0;
    if (seconds < 0 || seconds > INT64_MAX / NS_PER_S)
        return seconds < 0 ? 1 : 0;
    return seconds > RELATIVE_MAX_S ? seconds * NS_PER_S : clock_ns() + seconds * NS_PER_S;
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_of(const char *key)
{
    uint64_t hash = 14695981039346656037u;
    while (*key)
        hash = (hash ^ (unsigned char)*key++) * 1099511628211u;
    return hash;
}

static size_t room_of(size_t size)
{
    return sizeof(struct item) + size;
}

static void drop(struct table *table, struct item **place)
{
    struct item *item = *place;
    *place = item->next;
    table->bytes -= room_of(item->size);
    table->count--;
    free(item);
}

static void drop_all(struct table *table)
{
    for (size_t n = 0; n < table->bucket_count; n++)
        while (table->buckets[n])
            drop(table, &table->buckets[n]);
}

/* Where the item of a key is, or would be; NULL without memory. Drops what is over. */
static struct item **place_of(struct table *table, const char *key)
{
    int64_t instant = clock_ns();
    if (table->flush && table->flush <= instant) {
        drop_all(table);
        table->flush = 0;
    }
    if (!table->buckets) {
        table->buckets = calloc(FIRST_BUCKETS, sizeof *table->buckets);
        if (!table->buckets)
            return NULL;
        table->bucket_count = FIRST_BUCKETS;
    }
    struct item **place = &table->buckets[hash_of(key) % table->bucket_count];
    while (*place && strcmp((*place)->key, key))
        place = &(*place)->next;
    if (*place && (*place)->expires && (*place)->expires <= instant)
        drop(table, place);
    return place;
}

static struct item *find(struct table *table, const char *key)
{
    struct item **place = place_of(table, key);
    return place ? *place : NULL;
}

/* Keep buckets short. Without memory they get longer. */
static void grow(struct table *table)
{
    size_t wanted = table->bucket_count * 2;
    struct item **buckets = table->count > table->bucket_count ? calloc(wanted, sizeof *buckets) : NULL;
    if (!buckets)
        return;
    for (size_t n = 0; n < table->bucket_count; n++)
        for (struct item *item = table->buckets[n], *next; item; item = next) {
            struct item **place = &buckets[hash_of(item->key) % wanted];
            next = item->next;
            item->next = *place;
            *place = item;
        }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = wanted;
}

enum mode { SET, ADD, REPLACE };

/* A value to be kept; with `has_cas` only if its key has the value of this version, or with `is_late`
 * of a later one. */
struct change {
    char key[KEY_MAX_BYTES + 1];
    enum mode mode;
    uint32_t flags;
    int64_t expires;
    bool has_cas, is_late;
    uint64_t cas;
    const char *value;
    size_t size;
};

enum outcome { KEPT, UNFIT, CHANGED, MISSING, FULL };

static enum outcome keep(struct table *table, const struct change *change, struct item **kept)
{
    struct item **place = place_of(table, change->key), *before = place ? *place : NULL;
    if (!place)
        return FULL;
    if (change->has_cas && !before)
        return MISSING;
    if (change->has_cas && before->version != change->cas &&
        !(change->is_late && change->cas < before->version))
        return CHANGED;
    if ((change->mode == ADD && before) || (change->mode == REPLACE && !before))
        return UNFIT;
    size_t room = room_of(change->size), old = before ? room_of(before->size) : 0;
    struct item *item = table->bytes - old + room <= STORE_MAX_BYTES ? malloc(room) : NULL;
    if (!item)
        return FULL;
    *item = (struct item){.next = before ? before->next : NULL, .expires = change->expires,
                          .version = ++table->version, .flags = change->flags, .size = change->size};
    strcpy(item->key, change->key);
    memcpy(item->value, change->value, change->size);
    *place = item;
    table->bytes += room - old;
    table->count += !before;
    free(before);
    grow(table);
    *kept = item;
    return KEPT;
}

/* The whole number in a text, which has nothing else. */
static bool whole(const char *text, uint64_t *number)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return !*end && !errno;
}

static bool seconds_of(const char *text, int64_t *number)
{
    bool is_negative = text && *text == '-';
    uint64_t amount;
    if (!text || !whole(text + is_negative, &amount) || amount > INT64_MAX)
        return false;
    *number = is_negative ? -(int64_t)amount : (int64_t)amount;
    return true;
}

static bool flags_of(const char *text, uint32_t *flags)
{
    uint64_t number;
    if (!whole(text, &number) || number > UINT32_MAX)
        return false;
    *flags = (uint32_t)number;
    return true;
}

/* Add to the number of a key, or subtract down to 0: KEPT, MISSING, UNFIT if it is none, FULL. */
static enum outcome add(struct table *table, const char *key, uint64_t delta, bool is_less,
                        struct item **kept)
{
    struct item *before = find(table, key);
    char digits[24];
    uint64_t number;
    if (!before)
        return MISSING;
    if (before->size >= sizeof digits)
        return UNFIT;
    memcpy(digits, before->value, before->size);
    digits[before->size] = '\0';
    if (!whole(digits, &number))
        return UNFIT;
    number = !is_less ? number + delta : number > delta ? number - delta : 0;
    struct change change = {.flags = before->flags, .expires = before->expires, .value = digits,
                            .size = (size_t)sprintf(digits, "%llu", (unsigned long long)number)};
    strcpy(change.key, key);
    return keep(table, &change, kept);
}

/* ---- one client */

struct session {
    int fd;
    struct table *table;
    char *input; /* received and not yet handled */
    size_t used, begin;
    char *output;
    size_t pending, room;
    bool is_over;
};

static void flush(struct session *session)
{
    if (session->pending && write_all(session->fd, session->output, session->pending))
        session->is_over = true;
    session->pending = 0;
}

static void put(struct session *session, const void *data, size_t size)
{
    if (session->pending + size > session->room) {
        size_t room = session->pending + size + OUTPUT_BYTES;
        char *output = realloc(session->output, room);
        if (!output) {
            session->is_over = true;
            return;
        }
        session->output = output;
        session->room = room;
    }
    memcpy(session->output + session->pending, data, size);
    session->pending += size;
}

static void say_text(struct session *session, const char *text)
{
    put(session, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void say_words(struct session *session,
                                                            const char *format, ...)
{
    char text[KEY_MAX_BYTES + 128];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(session, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

/* Receive more; false at the end of the connection. */
static bool receive(struct session *session)
{
    flush(session);
    while (!session->is_over) {
        ssize_t got =
            recv(session->fd, session->input + session->used, INPUT_BYTES - session->used, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0) {
            session->used += (size_t)got;
            return true;
        }
        session->is_over = true;
    }
    return false;
}

/* Receive until there are `size` bytes of input; false at the end of the connection. */
static bool have(struct session *session, size_t size)
{
    if (session->begin + size > INPUT_BYTES) {
        memmove(session->input, session->input + session->begin, session->used - session->begin);
        session->used -= session->begin;
        session->begin = 0;
    }
    while (session->used - session->begin < size)
        if (!receive(session))
            return false;
    return true;
}

/* The next line, without its end; NULL at the end of the connection or if the line is too long. */
static char *next_line(struct session *session, size_t *length)
{
    for (size_t size = 1; size <= COMMAND_MAX_BYTES; size = session->used - session->begin + 1) {
        if (!have(session, size))
            return NULL;
        char *line = session->input + session->begin;
        char *end = memchr(line, '\n', session->used - session->begin);
        if (end) {
            session->begin += (size_t)(end + 1 - line);
            if (end > line && end[-1] == '\r')
                end--;
            *end = '\0';
            *length = (size_t)(end - line);
            return line;
        }
    }
    say_text(session, "CLIENT_ERROR line too long\r\n");
    flush(session);
    return NULL;
}

/* Drop `size` bytes of input. */
static void skip(struct session *session, uint64_t size)
{
    while (size && have(session, 1)) {
        size_t here = session->used - session->begin;
        size_t part = size < here ? (size_t)size : here;
        session->begin += part;
        size -= part;
    }
}

static bool is_key(const char *text)
{
    return text && strlen(text) <= KEY_MAX_BYTES;
}

static bool is_noreply(int count, char **words)
{
    return count && !strcmp(words[count - 1], "noreply");
}

/* Wait for the value of a change: 0, or -1 after a reply that says why not. */
static int take_value(struct session *session, struct change *change, uint64_t size)
{
    if (size > VALUE_MAX_BYTES) {
        say_text(session, TOO_LARGE);
        skip(session, size > UINT64_MAX - 2 ? size : size + 2);
        return -1;
    }
    if (!have(session, size + 2))
        return -1;
    change->value = session->input + session->begin;
    change->size = size;
    session->begin += size + 2;
    if (!memcmp(change->value + size, "\r\n", 2))
        return 0;
    say_text(session, BAD_CHUNK);
    return -1;
}

static enum outcome keep_one(struct session *session, const struct change *change,
                             uint64_t *version)
{
    struct item *kept = NULL;
    pthread_mutex_lock(&session->table->turn);
    enum outcome outcome = keep(session->table, change, &kept);
    if (kept)
        *version = kept->version;
    pthread_mutex_unlock(&session->table->turn);
    return outcome;
}

/* ---- classic commands */

static void get_all(struct session *session, char *rest, bool has_cas)
{
    char *key = strtok_r(rest, " ", &rest);
    if (!key) {
        say_text(session, "ERROR\r\n");
        return;
    }
    for (; key; key = strtok_r(NULL, " ", &rest)) {
        if (!is_key(key)) {
            say_text(session, BAD_FORMAT);
            return;
        }
        pthread_mutex_lock(&session->table->turn);
        const struct item *item = find(session->table, key);
        if (item) {
            say_words(session, "VALUE %s %u %zu", key, item->flags, item->size);
            if (has_cas)
                say_words(session, " %llu", (unsigned long long)item->version);
            say_text(session, "\r\n");
            put(session, item->value, item->size);
            say_text(session, "\r\n");
        }
        pthread_mutex_unlock(&session->table->turn);
        if (session->pending > OUTPUT_BYTES)
            flush(session);
        if (session->is_over)
            return;
    }
    say_text(session, "END\r\n");
}

static void set_one(struct session *session, const char *name, int count, char **words)
{
    struct change change = {.mode = !strcmp(name, "add")       ? ADD
                                    : !strcmp(name, "replace") ? REPLACE
                                                               : SET,
                            .has_cas = !strcmp(name, "cas")};
    bool is_quiet = is_noreply(count, words);
    int64_t seconds;
    uint64_t size, version;
    count -= is_quiet;
    if (count != 4 + change.has_cas || !is_key(words[0]) || !flags_of(words[1], &change.flags) ||
        !seconds_of(words[2], &seconds) || !whole(words[3], &size) ||
        (change.has_cas && !whole(words[4], &change.cas))) {
        say_text(session, BAD_FORMAT);
        return;
    }
    strcpy(change.key, words[0]);
    change.expires = expiry(seconds);
    if (take_value(session, &change, size))
        return;
    static const char *const REPLIES[] = {[KEPT] = "STORED\r\n", [UNFIT] = "NOT_STORED\r\n",
                                          [CHANGED] = "EXISTS\r\n", [MISSING] = "NOT_FOUND\r\n",
                                          [FULL] = NO_MEMORY};
    enum outcome outcome = keep_one(session, &change, &version);
    if (!is_quiet || outcome == FULL)
        say_text(session, REPLIES[outcome]);
}

static void delete_one(struct session *session, const char *name, int count, char **words)
{
    (void)name;
    bool is_quiet = is_noreply(count, words);
    count -= is_quiet;
    /* Old clients send a time of 0. */
    if (count < 1 || count > 2 || !is_key(words[0]) || (count == 2 && strcmp(words[1], "0"))) {
        say_text(session, BAD_FORMAT);
        return;
    }
    pthread_mutex_lock(&session->table->turn);
    struct item **place = place_of(session->table, words[0]);
    bool is_there = place && *place;
    if (is_there)
        drop(session->table, place);
    pthread_mutex_unlock(&session->table->turn);
    if (!is_quiet)
        say_text(session, is_there ? "DELETED\r\n" : "NOT_FOUND\r\n");
}

static void add_one(struct session *session, const char *name, int count, char **words)
{
    bool is_quiet = is_noreply(count, words);
    uint64_t delta;
    char reply[KEY_MAX_BYTES] = NO_MEMORY;
    count -= is_quiet;
    if (count != 2 || !is_key(words[0])) {
        say_text(session, BAD_FORMAT);
        return;
    }
    if (!whole(words[1], &delta)) {
        say_text(session, "CLIENT_ERROR invalid numeric delta argument\r\n");
        return;
    }
    struct item *kept = NULL;
    pthread_mutex_lock(&session->table->turn);
    enum outcome outcome = add(session->table, words[0], delta, !strcmp(name, "decr"), &kept);
    if (outcome == KEPT)
        sprintf(reply, "%.*s\r\n", (int)kept->size, kept->value);
    pthread_mutex_unlock(&session->table->turn);
    if (outcome == MISSING)
        strcpy(reply, "NOT_FOUND\r\n");
    if (outcome == UNFIT)
        strcpy(reply, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    if (!is_quiet || outcome == UNFIT || outcome == FULL)
        say_text(session, reply);
}

static void touch_one(struct session *session, const char *name, int count, char **words)
{
    (void)name;
    bool is_quiet = is_noreply(count, words);
    int64_t seconds;
    if (count - is_quiet != 2 || !is_key(words[0]) || !seconds_of(words[1], &seconds)) {
        say_text(session, BAD_FORMAT);
        return;
    }
    pthread_mutex_lock(&session->table->turn);
    struct item *item = find(session->table, words[0]);
    if (item)
        item->expires = expiry(seconds);
    pthread_mutex_unlock(&session->table->turn);
    if (!is_quiet)
        say_text(session, item ? "TOUCHED\r\n" : "NOT_FOUND\r\n");
}

static void flush_values(struct session *session, const char *name, int count, char **words)
{
    (void)name;
    bool is_quiet = is_noreply(count, words);
    int64_t seconds = 0;
    count -= is_quiet;
    if (count > 1 || (count == 1 && (!seconds_of(words[0], &seconds) || seconds < 0))) {
        say_text(session, BAD_FORMAT);
        return;
    }
    pthread_mutex_lock(&session->table->turn);
    session->table->flush = expiry(seconds);
    if (!seconds)
        drop_all(session->table);
    pthread_mutex_unlock(&session->table->turn);
    if (!is_quiet)
        say_text(session, "OK\r\n");
}

static void say_version(struct session *session, const char *name, int count, char **words)
{
    (void)name, (void)count, (void)words;
    say_text(session, "VERSION netesto-flow-" VERSION "\r\n");
}

static void set_verbosity(struct session *session, const char *name, int count, char **words)
{
    (void)name;
    if (!count)
        say_text(session, "ERROR\r\n");
    else if (!is_noreply(count, words))
        say_text(session, "OK\r\n");
}

static void quit(struct session *session, const char *name, int count, char **words)
{
    (void)name, (void)count, (void)words;
    flush(session);
    session->is_over = true;
}

/* ---- meta commands: a key, then flags of one letter, some with a token behind it */

static const char *flag(int count, char **flags, char letter)
{
    for (int n = 0; n < count; n++)
        if (flags[n][0] == letter)
            return flags[n] + 1;
    return NULL;
}

/* Whether all flags are among the letters, each once; otherwise a reply says so. */
static bool are_flags(struct session *session, int count, char **flags, const char *letters)
{
    for (int n = 0; n < count; n++) {
        if (!strchr(letters, flags[n][0])) {
            say_text(session, "CLIENT_ERROR invalid flag\r\n");
            return false;
        }
        if (flag(n, flags, flags[n][0])) {
            say_text(session, "CLIENT_ERROR duplicate flag\r\n");
            return false;
        }
    }
    return true;
}

/* The flags of a reply, in the order of the request, and the end of its line. `item` may be NULL. */
static void say_flags(struct session *session, const char *key, int count, char **flags,
                      const struct item *item)
{
    for (int n = 0; n < count; n++) {
        /* A second that has begun counts. */
        int64_t left = item && item->expires
                           ? (item->expires - clock_ns() + NS_PER_S - 1) / NS_PER_S
                           : -1;
        switch (flags[n][0]) {
        case 'O':
            say_words(session, " O%.128s", flags[n] + 1);
            break;
        case 'k':
            say_words(session, " k%s", key);
            break;
        case 'f':
            if (item)
                say_words(session, " f%u", item->flags);
            break;
        case 'c':
            if (item)
                say_words(session, " c%llu", (unsigned long long)item->version);
            break;
        case 's':
            if (item)
                say_words(session, " s%zu", item->size);
            break;
        case 't':
            if (item)
                say_words(session, " t%lld", (long long)left);
            break;
        }
    }
    say_text(session, "\r\n");
}

/* `VA` with the value if it is wanted, else `HD`; both with flags. */
static void say_item(struct session *session, int count, char **flags, const struct item *item)
{
    bool has_value = flag(count, flags, 'v');
    if (has_value)
        say_words(session, "VA %zu", item->size);
    else
        say_text(session, "HD");
    say_flags(session, item->key, count, flags, item);
    if (has_value) {
        put(session, item->value, item->size);
        say_text(session, "\r\n");
    }
}

static void meta_get(struct session *session, const char *key, int count, char **flags)
{
    if (!are_flags(session, count, flags, "vfckstqO"))
        return;
    pthread_mutex_lock(&session->table->turn);
    const struct item *item = find(session->table, key);
    if (item)
        say_item(session, count, flags, item);
    else if (!flag(count, flags, 'q'))
        say_text(session, "EN\r\n");
    pthread_mutex_unlock(&session->table->turn);
}

static void meta_set(struct session *session, const char *key, int count, char **words)
{
    struct change change = {.mode = SET};
    struct item stored = {0};
    uint64_t size;
    int64_t seconds = 0;
    if (!count || !whole(words[0], &size)) {
        say_text(session, BAD_CHUNK);
        return;
    }
    /* What the words point to moves when the value is received. */
    char copy[WORDS_MAX][160], *flags[WORDS_MAX];
    for (int n = 1; n < count; n++) {
        snprintf(copy[n - 1], sizeof copy[0], "%s", words[n]);
        flags[n - 1] = copy[n - 1];
    }
    count--;
    strcpy(change.key, key);
    bool is_valid = are_flags(session, count, flags, "FTIqOkcC");
    const char *token;
    if (is_valid && (((token = flag(count, flags, 'F')) && !flags_of(token, &change.flags)) ||
                     ((token = flag(count, flags, 'T')) && !seconds_of(token, &seconds)) ||
                     ((token = flag(count, flags, 'C')) && !whole(token, &change.cas)))) {
        say_text(session, "CLIENT_ERROR bad token in command line format\r\n");
        is_valid = false;
    }
    if (!is_valid) {
        skip(session, size > UINT64_MAX - 2 ? size : size + 2);
        return;
    }
    change.has_cas = flag(count, flags, 'C');
    change.is_late = flag(count, flags, 'I');
    change.expires = expiry(seconds);
    if (take_value(session, &change, size))
        return;
    enum outcome outcome = keep_one(session, &change, &stored.version);
    if (outcome == FULL) {
        say_text(session, NO_MEMORY);
        return;
    }
    if (outcome == KEPT && flag(count, flags, 'q'))
        return;
    static const char *const CODES[] = {[KEPT] = "HD", [UNFIT] = "NS", [CHANGED] = "EX",
                                        [MISSING] = "NF"};
    say_text(session, CODES[outcome]);
    say_flags(session, change.key, count, flags, outcome == KEPT ? &stored : NULL);
}

static void meta_delete(struct session *session, const char *key, int count, char **flags)
{
    const char *token;
    uint64_t cas = 0;
    if (!are_flags(session, count, flags, "qOkC"))
        return;
    if ((token = flag(count, flags, 'C')) && !whole(token, &cas)) {
        say_text(session, "CLIENT_ERROR bad token in command line format\r\n");
        return;
    }
    pthread_mutex_lock(&session->table->turn);
    struct item **place = place_of(session->table, key);
    const char *code = !place || !*place ? "NF" : token && (*place)->version != cas ? "EX" : "HD";
    if (!strcmp(code, "HD"))
        drop(session->table, place);
    pthread_mutex_unlock(&session->table->turn);
    if (flag(count, flags, 'q') && strcmp(code, "EX"))
        return;
    say_text(session, code);
    say_flags(session, key, count, flags, NULL);
}

static void meta_add(struct session *session, const char *key, int count, char **flags)
{
    const char *delta_text, *mode;
    uint64_t delta = 1;
    if (!are_flags(session, count, flags, "DMqOktcvs"))
        return;
    if ((delta_text = flag(count, flags, 'D')) && !whole(delta_text, &delta)) {
        say_text(session, "CLIENT_ERROR invalid numeric delta argument\r\n");
        return;
    }
    mode = flag(count, flags, 'M');
    if (mode && (!*mode || !strchr("IiDd+-", *mode) || mode[1])) {
        say_text(session, "CLIENT_ERROR invalid mode for ma\r\n");
        return;
    }
    bool is_quiet = flag(count, flags, 'q');
    struct item *kept = NULL;
    pthread_mutex_lock(&session->table->turn);
    enum outcome outcome = add(session->table, key, delta, mode && strchr("Dd-", *mode), &kept);
    if (outcome == KEPT && !is_quiet)
        say_item(session, count, flags, kept);
    pthread_mutex_unlock(&session->table->turn);
    if (outcome == FULL)
        say_text(session, NO_MEMORY);
    if (outcome == UNFIT)
        say_text(session, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    if (outcome == MISSING && !is_quiet) {
        say_text(session, "NF");
        say_flags(session, key, count, flags, NULL);
    }
}

/* ---- a connection */

static const struct command {
    const char *name;
    void (*classic)(struct session *session, const char *name, int count, char **words);
    void (*meta)(struct session *session, const char *key, int count, char **words);
} COMMANDS[] = {
    {"set", set_one, NULL},
    {"add", set_one, NULL},
    {"replace", set_one, NULL},
    {"cas", set_one, NULL},
    {"delete", delete_one, NULL},
    {"incr", add_one, NULL},
    {"decr", add_one, NULL},
    {"touch", touch_one, NULL},
    {"flush_all", flush_values, NULL},
    {"version", say_version, NULL},
    {"verbosity", set_verbosity, NULL},
    {"quit", quit, NULL},
    {"mg", NULL, meta_get},
    {"ms", NULL, meta_set},
    {"md", NULL, meta_delete},
    {"ma", NULL, meta_add},
};
#define COMMAND_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])

static void obey(struct session *session, char *line)
{
    char *words[WORDS_MAX], *rest = NULL;
    char *name = strtok_r(line, " ", &rest);
    if (name && (!strcmp(name, "get") || !strcmp(name, "gets"))) {
        get_all(session, rest, name[3]);
        return;
    }
    if (name && !strcmp(name, "mn")) {
        say_text(session, "MN\r\n");
        return;
    }
    for (size_t n = 0; name && n < COMMAND_COUNT; n++) {
        if (strcmp(name, COMMANDS[n].name))
            continue;
        int count = split(rest, words, WORDS_MAX);
        if (COMMANDS[n].classic)
            COMMANDS[n].classic(session, name, count, words);
        else if (count && is_key(words[0]))
            COMMANDS[n].meta(session, words[0], count - 1, words + 1);
        else
            say_text(session, BAD_FORMAT);
        return;
    }
    say_text(session, "ERROR\r\n");
}

static int answer(int fd, struct table *table, struct failure *why)
{
    struct session session = {.fd = fd, .table = table, .input = malloc(INPUT_BYTES)};
    size_t length;
    if (!session.input)
        return fail(why, "no memory");
    for (char *line; !session.is_over && (line = next_line(&session, &length));) {
        if (strlen(line) < length)
            say_text(&session, BAD_FORMAT);
        else
            obey(&session, line);
        if (session.pending > OUTPUT_BYTES)
            flush(&session);
    }
    free(session.input);
    free(session.output);
    /* The end of a connection ends a test; it is not a failure of the store. */
    return 0;
}

int keyvalue_serve(int fd, struct failure *why)
{
    struct table own = {.turn = PTHREAD_MUTEX_INITIALIZER};
    int status = answer(fd, &own, why);
    drop_all(&own);
    free(own.buckets);
    return status;
}

int keyvalue_serve_shared(int fd, int64_t exp, struct failure *why)
{
    static int64_t last_exp;
    pthread_mutex_lock(&shared.turn);
    if (last_exp != exp)
        drop_all(&shared);
    last_exp = exp;
    pthread_mutex_unlock(&shared.turn);
    return answer(fd, &shared, why);
}

/* ---- a store by itself */

static _Atomic int connections;

static void *serve_client(void *argument)
{
    struct failure why;
    int fd = (int)(intptr_t)argument;
    keyvalue_serve_shared(fd, 0, &why);
    close(fd);
    --connections;
    return NULL;
}

int store_serve(const char *text, int port, struct failure *why)
{
    struct sockaddr_storage address;
    struct timeval patience = {.tv_sec = CLIENT_TIMEOUT_S};
    int listener = address_parse(text, port, &address, why) ? -1 : listen_on(&address, NULL, why);
    if (listener < 0)
        return -1;
    fprintf(stderr, "listening on %s port %d\n", text, port);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), yes = 1;
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                sleep_until(now() + NS_PER_S / 10);
            else if (errno != EINTR && errno != ECONNABORTED)
                return fail_errno(why, "accept");
            continue;
        }
        keep_alive(fd);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        pthread_t thread;
        if (++connections > CONNECTIONS_MAX ||
            pthread_create(&thread, NULL, serve_client, (void *)(intptr_t)fd)) {
            --connections;
            say(fd, "SERVER_ERROR too many connections\r\n");
            close(fd);
        } else {
            pthread_detach(thread);
        }
    }
}
