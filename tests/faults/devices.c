#include "faults/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "faults/post.h"

uint64_t random_next(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * UINT64_C(2685821657736338717);
}

int64_t random_between(uint64_t *state, int64_t least, int64_t most) {
  return least + (int64_t)((random_next(state) >> 11) % (uint64_t)(most - least + 1));
}

int64_t real_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void note(struct device *device, const struct attempt *attempt) {
  if (device->count == device->room) {
    size_t room = device->room == 0 ? 64 : device->room * 2;
    struct attempt *more = realloc(device->attempts, room * sizeof *more);
    if (more == NULL) abort();
    device->attempts = more;
    device->room = room;
  }
  device->attempts[device->count++] = *attempt;
}

static const char *address_of(struct devices *devices, int api) {
  pthread_mutex_lock(&devices->lock);
  const char *address = devices->address[api];
  pthread_mutex_unlock(&devices->lock);
  return address;
}

/* Tries one process, then the other; true where one of them says 200 or 204. */
static bool send_to_any(struct sender *sender, const char *path, const char *body, struct attempt *attempt, char *answer,
                        size_t room) {
  int first = (int)(random_next(&sender->random) >> 33) % APIS, status = 0;
  for (int i = 0; i < APIS; i++) attempt->said[i] = NOT_ASKED;
  for (int i = 0; i < APIS && status != 200 && status != 204; i++) {
    int api = (first + i) % APIS;
    const char *address = address_of(sender->devices, api);
    status = address != NULL ? post(address, sender->devices->token, path, body, POST_TIMEOUT_MS, answer, room) : NOT_RUNNING;
    attempt->said[api] = (int16_t)status;
  }
  return status == 200 || status == 204;
}

/* All whose turn it is, in one batch. */
static void beat(struct sender *sender, const int *due, int count) {
  struct devices *devices = sender->devices;
  char path[64], answer[32768], *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  if (out == NULL) abort();
  for (int i = 0; i < count; i++) fprintf(out, "%c{\"device\":\"d%d\",\"ttl_ms\":%d}", i == 0 ? '[' : ',', due[i], DEVICE_TTL_MS);
  fputc(']', out);
  fclose(out);
  snprintf(path, sizeof path, "/v1/tenants/%s/heartbeats", devices->tenant);
  struct attempt attempt = {.sent_ms = real_ms()};
  bool answered = send_to_any(sender, path, body, &attempt, answer, sizeof answer);
  attempt.answered_ms = real_ms();
  for (int i = 0; i < count; i++) {
    struct device *device = &devices->device[due[i]];
    char name[40];
    snprintf(name, sizeof name, "\"device\":\"d%d\"", due[i]); /* only the rejected ones are named */
    attempt.accepted = answered && strstr(answer, name) == NULL;
    note(device, &attempt);
    device->next_ms = attempt.sent_ms + (attempt.accepted ? DEVICE_BEAT_MS + random_between(&sender->random, -100, 100) : 300);
  }
  free(body);
}

static void disconnect(struct sender *sender, int number) {
  char path[96], answer[64];
  struct attempt attempt;
  snprintf(path, sizeof path, "/v1/tenants/%s/devices/d%d/disconnect", sender->devices->tenant, number);
  sender->devices->device[number].tried_disconnect = true;
  (void)send_to_any(sender, path, "", &attempt, answer, sizeof answer);
}

static void change(struct sender *sender, int number, int64_t now_ms) {
  struct device *device = &sender->devices->device[number];
  device->alive = !device->alive;
  device->next_ms = now_ms;
  device->change_ms = now_ms + random_between(&sender->random, 1000, 15000);
  if (!device->alive && random_between(&sender->random, 0, 4) == 0) disconnect(sender, number);
}

static void *run(void *context) {
  struct sender *sender = context;
  struct devices *devices = sender->devices;
  int due[DEVICES];
  while (!atomic_load(&devices->end)) {
    int64_t now_ms = real_ms();
    int count = 0;
    for (int i = sender->number; i < DEVICES && !atomic_load(&devices->silent); i += SENDERS) {
      struct device *device = &devices->device[i];
      if (i >= DEVICES / 5 && now_ms >= device->change_ms) change(sender, i, now_ms); /* the first fifth never dies */
      if (device->alive && now_ms >= device->next_ms) due[count++] = i;
    }
    if (count > 0) beat(sender, due, count);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  return NULL;
}

void devices_start(struct devices *devices, uint64_t seed, const char *tenant, const char *token) {
  devices->tenant = tenant;
  devices->token = token;
  int64_t now_ms = real_ms();
  uint64_t random = seed * 2 + 1;
  for (int i = 0; i < DEVICES; i++) {
    devices->device[i].alive = true;
    devices->device[i].next_ms = now_ms + random_between(&random, 0, DEVICE_BEAT_MS);
    devices->device[i].change_ms = now_ms + random_between(&random, 1000, 15000);
  }
  for (int i = 0; i < SENDERS; i++) {
    devices->sender[i] = (struct sender){.devices = devices, .number = i, .random = random_next(&random) | 1};
    if (pthread_create(&devices->sender[i].thread, NULL, run, &devices->sender[i]) != 0) abort();
  }
}

void devices_address(struct devices *devices, int api, const char *address) {
  pthread_mutex_lock(&devices->lock);
  devices->address[api] = address;
  pthread_mutex_unlock(&devices->lock);
}

void devices_stop(struct devices *devices) {
  atomic_store(&devices->end, true);
  for (int i = 0; i < SENDERS; i++) pthread_join(devices->sender[i].thread, NULL);
}

void devices_free(struct devices *devices) {
  for (int i = 0; i < DEVICES; i++) free(devices->device[i].attempts);
  pthread_mutex_destroy(&devices->lock);
}
