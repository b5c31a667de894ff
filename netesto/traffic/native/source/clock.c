/* Time: instants, waiting for them, and random numbers for arrivals. */
#include "flow.h"

#include <math.h>
#include <time.h>

/* A sleeper wakes later than this only if the machine is busy; no margin would help then. */
#define MARGIN_MAX 200000

int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * NS_PER_S + time.tv_nsec;
}

int64_t utc_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * NS_PER_S + time.tv_nsec;
}

void sleep_until(int64_t instant)
{
    struct timespec time = {.tv_sec = instant / NS_PER_S, .tv_nsec = instant % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
        ;
}

void pace(struct pacer *pacer, int64_t instant)
{
    int64_t wake = instant - pacer->margin;
    int64_t time = now();
    if (time < wake) {
        sleep_until(wake);
        time = now();
        int64_t late = time - wake;
        /* Up at once, down slowly: late wakeups are rare, and they are the ones that matter. */
        pacer->margin = late > pacer->margin ? late : pacer->margin - (pacer->margin - late) / 64;
        if (pacer->margin > MARGIN_MAX)
            pacer->margin = MARGIN_MAX;
    }
    while (time < instant) {
        int64_t before = time;
        time = now();
        /* Simulated time does not pass while it is read: polling would only make others late. */
        if (time == before)
            sleep_until(instant);
    }
}

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1DULL;
}

double random_exponential(uint64_t *state, double mean)
{
    /* In (0, 1]: 0 has no logarithm. */
    double uniform = (double)((random_next(state) >> 11) + 1) / 9007199254740992.0;
    return -mean * log(uniform);
}
