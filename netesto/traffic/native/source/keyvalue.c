/* KV_RR: requests to a key-value store in memcached's text protocol (doc/protocol.txt of memcached): get
 * and set, of one key each. store.c has the store.
 *
 * The first request is a set. Each later one is, with the probability of the option `get`, a get of a
 * key that was set before; otherwise a set of such a key or, while there are fewer than KEYS and the
 * store has room for it, of a new one.
 */
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 1000
#define VALUE_MAX_BYTES 1000000
#define COMMAND_MAX_BYTES 8192

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
                    (size_t)(keyvalue->keys + 1) * (STORE_ITEM_BYTES + (size_t)keyvalue->size) <= STORE_MAX_BYTES;
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
