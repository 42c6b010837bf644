#include "faults/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "faults/post.h"

#define POST_TIMEOUT_MS 500

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

static void note(struct device *device, int64_t sent_ms, bool accepted) {
  if (device->count == device->room) {
    size_t room = device->room == 0 ? 64 : device->room * 2;
    struct attempt *more = realloc(device->attempts, room * sizeof *more);
    if (more == NULL) abort();
    device->attempts = more;
    device->room = room;
  }
  device->attempts[device->count++] = (struct attempt){sent_ms, real_ms(), accepted};
}

static const char *address_of(struct devices *devices, int api) {
  pthread_mutex_lock(&devices->lock);
  const char *address = devices->address[api];
  pthread_mutex_unlock(&devices->lock);
  return address;
}

/* Tries one process, then the other. 0: neither answered. */
static int send_to_any(struct devices *devices, const char *path, const char *body, char *answer, size_t room) {
  int first = (int)(random_next(&devices->random) >> 33) % APIS, status = 0;
  for (int i = 0; i < APIS && status != 200 && status != 204; i++) {
    const char *address = address_of(devices, (first + i) % APIS);
    if (address != NULL) status = post(address, devices->token, path, body, POST_TIMEOUT_MS, answer, room);
  }
  return status;
}

/* All whose turn it is, in one batch. */
static void beat(struct devices *devices, const int *due, int count) {
  static char answer[32768];
  char path[64], *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  if (out == NULL) abort();
  for (int i = 0; i < count; i++) fprintf(out, "%c{\"device\":\"d%d\",\"ttl_ms\":%d}", i == 0 ? '[' : ',', due[i], DEVICE_TTL_MS);
  fputc(']', out);
  fclose(out);
  snprintf(path, sizeof path, "/v1/tenants/%s/heartbeats", devices->tenant);
  int64_t sent_ms = real_ms();
  bool answered = send_to_any(devices, path, body, answer, sizeof answer) == 200;
  for (int i = 0; i < count; i++) {
    struct device *device = &devices->device[due[i]];
    char name[40];
    snprintf(name, sizeof name, "\"device\":\"d%d\"", due[i]); /* only the rejected ones are named */
    bool accepted = answered && strstr(answer, name) == NULL;
    note(device, sent_ms, accepted);
    device->next_ms = sent_ms + (accepted ? DEVICE_BEAT_MS + random_between(&devices->random, -100, 100) : 300);
  }
  free(body);
}

static void disconnect(struct devices *devices, int number) {
  char path[96], answer[64];
  snprintf(path, sizeof path, "/v1/tenants/%s/devices/d%d/disconnect", devices->tenant, number);
  devices->device[number].tried_disconnect = true;
  (void)send_to_any(devices, path, "", answer, sizeof answer);
}

static void change(struct devices *devices, int number, int64_t now_ms) {
  struct device *device = &devices->device[number];
  device->alive = !device->alive;
  device->next_ms = now_ms;
  device->change_ms = now_ms + random_between(&devices->random, 1000, 15000);
  if (!device->alive && random_between(&devices->random, 0, 4) == 0) disconnect(devices, number);
}

static void *run(void *context) {
  struct devices *devices = context;
  int due[DEVICES];
  while (!atomic_load(&devices->end)) {
    int64_t now_ms = real_ms();
    int count = 0;
    for (int i = 0; i < DEVICES && !atomic_load(&devices->silent); i++) {
      struct device *device = &devices->device[i];
      if (i >= DEVICES / 5 && now_ms >= device->change_ms) change(devices, i, now_ms); /* the first fifth never dies */
      if (device->alive && now_ms >= device->next_ms) due[count++] = i;
    }
    if (count > 0) beat(devices, due, count);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  return NULL;
}

void devices_start(struct devices *devices, uint64_t seed, const char *tenant, const char *token) {
  devices->random = seed * 2 + 1;
  devices->tenant = tenant;
  devices->token = token;

  int64_t now_ms = real_ms();
  for (int i = 0; i < DEVICES; i++) {
    devices->device[i].alive = true;
    devices->device[i].next_ms = now_ms + random_between(&devices->random, 0, DEVICE_BEAT_MS);
    devices->device[i].change_ms = now_ms + random_between(&devices->random, 1000, 15000);
  }
  if (pthread_create(&devices->thread, NULL, run, devices) != 0) abort();
}

void devices_address(struct devices *devices, int api, const char *address) {
  pthread_mutex_lock(&devices->lock);
  devices->address[api] = address;
  pthread_mutex_unlock(&devices->lock);
}

void devices_stop(struct devices *devices) {
  atomic_store(&devices->end, true);
  pthread_join(devices->thread, NULL);
}

void devices_free(struct devices *devices) {
  for (int i = 0; i < DEVICES; i++) free(devices->device[i].attempts);
  pthread_mutex_destroy(&devices->lock);
}
