/* notify.h: tells the service manager that started this process how it does, by systemd's protocol: one datagram to the socket
 * that NOTIFY_SOCKET names (https://www.freedesktop.org/software/systemd/man/sd_notify.html). Any thread. */
#ifndef PRESENCE_NOTIFY_H
#define PRESENCE_NOTIFY_H

/* state: "READY=1", "STOPPING=1". Nothing happens where nobody asked for it; that nobody listens any more is no error. */
void notify_service_manager(const char *state);

#endif
