// Preloaded into a server: once, the event that a thread was woken for is gone before it is read, as when another
// thread destroys the event's connection in between. What rdma_get_cm_event() says then: rdma_get_cm_event(3),
// O_NONBLOCK.
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stddef.h>

int rdma_get_cm_event(struct rdma_event_channel* channel, struct rdma_cm_event** event) {
    static atomic_flag gone = ATOMIC_FLAG_INIT;
    int (*real)(struct rdma_event_channel*, struct rdma_cm_event**) = NULL;

    if (!atomic_flag_test_and_set(&gone)) {
        errno = EAGAIN;
        return -1;
    }
    *(void**)&real = dlsym(RTLD_NEXT, "rdma_get_cm_event");
    return real(channel, event);
}
