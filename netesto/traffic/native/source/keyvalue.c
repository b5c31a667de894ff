/* KV_RR: requests to a key-value store in memcached's text protocol (doc/protocol.txt of memcached),
 * and a store that answers them: get and set, of one key each.
 *
 * The first request is a set. Each later one is, with the probability of the option `get`, a get of a
 * key that was set before; otherwise a set of such a key or, while there are fewer than KEYS and the
 * store has room for it, of a new one.
 */
#include "flow.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS 1000
#define KEY_MAX_BYTES 250
#define VALUE_MAX_BYTES 1000000
#define COMMAND_MAX_BYTES 8192
#define STORE_MAX_BYTES (256u << 20)
/* The most that an item costs in addition to its value: the rest of its reply, and its place. */
#define ITEM_BYTES (sizeof(struct item) + KEY_MAX_BYTES + 128)
#define INPUT_BYTES (VALUE_MAX_BYTES + COMMAND_MAX_BYTES)

/* A value, as the reply to a get. */
struct item {
    size_t room, size;
    char key[KEY_MAX_BYTES + 1];
    char reply[];
};

/* ---- the client */

int keyvalue_open(struct keyvalue *keyvalue, const struct options *options, struct failure *why)
{
    if (options->size > VALUE_MAX_BYTES)
        return fail(why, "values of %lld bytes: at most %d are possible", (long long)options->size,
                    VALUE_MAX_BYTES);
    size_t room = (size_t)options->size + COMMAND_MAX_BYTES;
    *keyvalue = (struct keyvalue){.random = (uint64_t)options->seed * 2 + 1, .room = room,
                                  .size = options->size, .get_millionths = options->get,
                                  .request = malloc(room), .reply = malloc(room)};
    return keyvalue->request && keyvalue->reply ? 0 : fail(why, "no memory");
}

void keyvalue_close(struct keyvalue *keyvalue)
{
    free(keyvalue->request);
    free(keyvalue->reply);
}

static size_t make_request(struct keyvalue *keyvalue)
{
    uint64_t chance = random_next(&keyvalue->random);
    bool is_get = keyvalue->keys && (int64_t)(chance % 1000000) < keyvalue->get_millionths;
    bool has_room = keyvalue->keys < KEYS &&
                    (size_t)(keyvalue->keys + 1) * (ITEM_BYTES + (size_t)keyvalue->size) <= STORE_MAX_BYTES;
    bool is_new = !keyvalue->keys || (!is_get && has_room && (chance >> 40 & 1));
    int64_t key = is_new ? keyvalue->keys : (int64_t)((chance >> 20) % (uint64_t)keyvalue->keys);
    char *text = keyvalue->request;
    if (is_get) {
        keyvalue->gets++;
        return (size_t)snprintf(text, keyvalue->room, "get netesto:%04lld\r\n", (long long)key);
    }
    keyvalue->keys += is_new;
    size_t used = (size_t)snprintf(text, keyvalue->room, "set netesto:%04lld 0 0 %lld\r\n",
                                   (long long)key, (long long)keyvalue->size);
    memset(text + used, 'v', (size_t)keyvalue->size);
    memcpy(text + used + keyvalue->size, "\r\n", 2);
    return used + (size_t)keyvalue->size + 2;
}

/* The length of the reply that begins like this; 0 if not yet known, -1 if it reports an error. */
static ssize_t reply_size(struct keyvalue *keyvalue, size_t used)
{
    const char *end = memchr(keyvalue->reply, '\n', used);
    long long size;
    if (!end)
        return 0;
    ssize_t line = end + 1 - keyvalue->reply;
    if (!strncmp(keyvalue->reply, "STORED\r\n", (size_t)line))
        return line;
    if (!strncmp(keyvalue->reply, "END\r\n", (size_t)line)) {
        keyvalue->misses++;
        return line;
    }
    if (sscanf(keyvalue->reply, "VALUE %*s %*s %lld", &size) == 1 && size >= 0 &&
        size <= VALUE_MAX_BYTES)
        return line + (ssize_t)size + 2 + (ssize_t)strlen("END\r\n");
    return -1;
}

/* One request and its reply: 1, 0 at the end of the connection, -1 for an error with `why`. */
int keyvalue_exchange(struct keyvalue *keyvalue, int fd, struct failure *why)
{
    size_t size = make_request(keyvalue), used = 0;
    ssize_t wanted = 0;
    if (write_all(fd, keyvalue->request, size))
        return 0;
    while (!wanted || used < (size_t)wanted) {
        ssize_t got = recv(fd, keyvalue->reply + used, keyvalue->room - 1 - used, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        used += (size_t)got;
        keyvalue->reply[used] = '\0';
        if (!wanted)
            wanted = reply_size(keyvalue, used);
        if (wanted < 0 || (size_t)wanted >= keyvalue->room) {
            keyvalue->reply[strcspn(keyvalue->reply, "\r\n")] = '\0';
            fail(why, "the store replied: %.100s", keyvalue->reply);
            return -1;
        }
    }
    keyvalue->exchanges++;
    keyvalue->sent_bytes += (int64_t)size;
    return 1;
}

/* ---- the store */

struct table {
    void *items; /* a tree of tsearch(3) */
    size_t bytes;
    pthread_mutex_t turn;
};

/* That of all clients of a trace. */
static struct table shared = {.turn = PTHREAD_MUTEX_INITIALIZER};

struct store {
    int fd;
    struct table *table;
    char *input; /* received and not yet handled */
    size_t used, begin;
};

static int by_key(const void *one, const void *other)
{
    return strcmp(((const struct item *)one)->key, ((const struct item *)other)->key);
}

static struct item **place_of(const struct store *store, const char *key)
{
    struct item wanted;
    strcpy(wanted.key, key);
    return tfind(&wanted, &store->table->items, by_key);
}

/* Read until there are `size` bytes of input; false at the end of the connection. */
static bool have(struct store *store, size_t size)
{
    if (store->begin + size > INPUT_BYTES) {
        memmove(store->input, store->input + store->begin, store->used - store->begin);
        store->used -= store->begin;
        store->begin = 0;
    }
    while (store->used - store->begin < size) {
        ssize_t got = recv(store->fd, store->input + store->used, INPUT_BYTES - store->used, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        store->used += (size_t)got;
    }
    return true;
}

/* The next line, without its end; NULL at the end of the connection or if the line is too long. */
static char *next_line(struct store *store)
{
    for (size_t size = 1; size <= COMMAND_MAX_BYTES; size = store->used - store->begin + 1) {
        if (!have(store, size))
            return NULL;
        char *line = store->input + store->begin;
        char *end = memchr(line, '\n', store->used - store->begin);
        if (end) {
            store->begin += (size_t)(end + 1 - line);
            *end = '\0';
            if (end > line && end[-1] == '\r')
                end[-1] = '\0';
            return line;
        }
    }
    return NULL;
}

static int reply(struct store *store, const char *text)
{
    return write_all(store->fd, text, strlen(text));
}

static int get(struct store *store, const char *key)
{
    if (strlen(key) > KEY_MAX_BYTES)
        return reply(store, "CLIENT_ERROR bad command line format\r\n");
    pthread_mutex_lock(&store->table->turn);
    struct item **place = place_of(store, key);
    size_t size = place ? (*place)->size : 0;
    char *copy = place ? malloc(size) : NULL;
    if (copy)
        memcpy(copy, (*place)->reply, size);
    pthread_mutex_unlock(&store->table->turn);
    /* A client that does not read must not keep others waiting. */
    int status = copy ? write_all(store->fd, copy, size)
                      : reply(store, place ? "SERVER_ERROR out of memory\r\n" : "END\r\n");
    free(copy);
    return status;
}

/* Keep the first `size` bytes of the input. */
static const char *keep_item(struct store *store, const char *key, size_t size)
{
    struct item **place = place_of(store, key), *item = NULL;
    size_t room = ITEM_BYTES + size, before = place ? (*place)->room : 0;
    if (store->table->bytes - before + room <= STORE_MAX_BYTES)
        item = realloc(place ? *place : NULL, room);
    if (!item)
        return "SERVER_ERROR out of memory storing object\r\n";
    strcpy(item->key, key);
    if (place) {
        *place = item;
    } else if (!tsearch(item, &store->table->items, by_key)) {
        free(item);
        return "SERVER_ERROR out of memory storing object\r\n";
    }
    store->table->bytes += room - before;
    item->room = room;
    size_t head = (size_t)sprintf(item->reply, "VALUE %s 0 %zu\r\n", key, size);
    memcpy(item->reply + head, store->input + store->begin, size);
    memcpy(item->reply + head + size, "\r\nEND\r\n", 7);
    item->size = head + size + 7;
    return "STORED\r\n";
}

static int set(struct store *store, const char *line)
{
    char key[KEY_MAX_BYTES + 1];
    size_t size;
    if (sscanf(line, "set %250s %*u %*d %zu", key, &size) != 2 || size > VALUE_MAX_BYTES)
        return reply(store, "CLIENT_ERROR bad command line format\r\n") ? -1 : 1;
    if (!have(store, size + 2))
        return -1;
    pthread_mutex_lock(&store->table->turn);
    const char *answer = memcmp(store->input + store->begin + size, "\r\n", 2)
                             ? "CLIENT_ERROR bad data chunk\r\n"
                             : keep_item(store, key, size);
    pthread_mutex_unlock(&store->table->turn);
    store->begin += size + 2;
    return reply(store, answer);
}

/* Answer requests until the connection ends. */
static int answer(int fd, struct table *table, struct failure *why)
{
    struct store store = {.fd = fd, .table = table, .input = malloc(INPUT_BYTES)};
    int status = 0;
    if (!store.input)
        return fail(why, "no memory");
    for (char *line; !status && (line = next_line(&store));) {
        if (!strncmp(line, "get ", 4))
            status = get(&store, line + 4);
        else if (!strncmp(line, "set ", 4))
            status = set(&store, line);
        else
            status = reply(&store, "ERROR\r\n");
    }
    free(store.input);
    /* The end of a connection ends the test; it is not a failure of the store. */
    return 0;
}

int keyvalue_serve(int fd, struct failure *why)
{
    struct table own = {.turn = PTHREAD_MUTEX_INITIALIZER};
    int status = answer(fd, &own, why);
    tdestroy(own.items, free);
    return status;
}

/* With the values of all clients of this process in an experiment. */
int keyvalue_serve_shared(int fd, int64_t exp, struct failure *why)
{
    static int64_t last_exp;
    pthread_mutex_lock(&shared.turn);
    if (last_exp != exp) {
        last_exp = exp;
        tdestroy(shared.items, free);
        shared.items = NULL;
        shared.bytes = 0;
    }
    pthread_mutex_unlock(&shared.turn);
    return answer(fd, &shared, why);
}
