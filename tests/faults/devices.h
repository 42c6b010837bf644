/* devices.h: some hundred devices with their own schedules, and what each of them knows: the reference that the outbox is
 * compared with. Several threads send, so that a process that does not answer keeps only some devices waiting. All times are real
 * milliseconds since 1970. */
#ifndef PRESENCE_TEST_FAULTS_DEVICES_H
#define PRESENCE_TEST_FAULTS_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICES 300
#define SENDERS 4 /* device i belongs to sender i % SENDERS */
#define APIS 2
#define DEVICE_TTL_MS 3000
#define DEVICE_BEAT_MS 1000
#define POST_TIMEOUT_MS 500

/* What a process said to an attempt, where it is no HTTP status. */
enum { NOT_ASKED = -2, NOT_RUNNING = -1, NO_ANSWER = 0 };

struct attempt {
  int64_t sent_ms, answered_ms;
  bool accepted;      /* it is surely in force */
  int16_t said[APIS]; /* by each process */
};

struct device {
  struct attempt *attempts; /* in the order of time */
  size_t count, room;
  bool alive;
  int64_t next_ms;   /* alive: the next heartbeat */
  int64_t change_ms; /* it dies or comes back */
  bool tried_disconnect;
};

struct sender {
  struct devices *devices;
  int number;
  uint64_t random;
  pthread_t thread;
};

struct devices {
  struct device device[DEVICES];
  struct sender sender[SENDERS];
  const char *token, *tenant;
  pthread_mutex_t lock;      /* of address */
  const char *address[APIS]; /* NULL: not running */
  atomic_bool silent;        /* nobody sends any more */
  atomic_bool end;
};

uint64_t random_next(uint64_t *state); /* xorshift64* */
int64_t random_between(uint64_t *state, int64_t least, int64_t most);
int64_t real_ms(void);

void devices_start(struct devices *devices, uint64_t seed, const char *tenant, const char *token);
void devices_address(struct devices *devices, int api, const char *address);
void devices_stop(struct devices *devices);
void devices_free(struct devices *devices);

#endif
