/* proxy.h: stands between the service and a server on a Unix socket, and breaks the connection in the ways that networks do. */
#ifndef PRESENCE_TEST_PROXY_H
#define PRESENCE_TEST_PROXY_H

#include <stdbool.h>
#include <stddef.h>

struct proxy;

/* Listens on one Unix socket and hands on to another, in a thread of its own. */
struct proxy *proxy_start(const char *listen_path, const char *target_path);
void proxy_stop(struct proxy *proxy); /* NULL is fine */

void proxy_cut(struct proxy *proxy);                 /* ends all connections now */
void proxy_refuse(struct proxy *proxy, bool on);     /* ends all connections, and each new one at once */
void proxy_blackhole(struct proxy *proxy, bool on);  /* connections stay open, nothing passes either way; later it flows on */
void proxy_delay(struct proxy *proxy, int delay_ms); /* each piece passes so much later */
/* Lets so many more bytes of requests (to the server) or of answers (from it) pass, over all connections, and then ends all
 * connections: in the middle of a pipeline. Answers: the requests have taken effect, their answers get lost. */
void proxy_cut_after_requests(struct proxy *proxy, size_t bytes);
void proxy_cut_after_answers(struct proxy *proxy, size_t bytes);

size_t proxy_cuts(struct proxy *proxy);        /* connections ended by the proxy so far */
size_t proxy_connections(struct proxy *proxy); /* open now */

#endif
