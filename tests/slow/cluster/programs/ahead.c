/* When preloaded, sets a program's clock an hour ahead; measured durations and timeouts are unaffected. */
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME)
        now->tv_sec += 3600;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    int failed = syscall(SYS_gettimeofday, now, zone);
    now->tv_sec += 3600;
    return failed;
}

time_t time(time_t *now)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}
