/* snapshot.h: the directory's memory: an immutable table of tenants and tokens, reference counted, with one open-addressed hash
 * index each. Built by one thread, then read by any. */
#ifndef PRESENCE_DIRECTORY_SNAPSHOT_H
#define PRESENCE_DIRECTORY_SNAPSHOT_H

#include "directory.h"

/* One reference, the caller's. */
enum status snapshot_new(int64_t version, struct directory_snapshot **snapshot) MUST_CHECK;
/* Copies what it is given, the strings too. */
enum status snapshot_add_tenant(struct directory_snapshot *snapshot, const struct tenant *tenant) MUST_CHECK;
enum status snapshot_add_token(struct directory_snapshot *snapshot, const struct token *token) MUST_CHECK;
/* Makes the indexes; after it nothing is added. STATUS_INVALID: a tenant or token twice. */
enum status snapshot_finish(struct directory_snapshot *snapshot) MUST_CHECK;

/* Makes a finished snapshot the directory's current one; takes the reference. Its thread, or a test in place of it. */
void directory_publish(struct directory *directory, struct directory_snapshot *snapshot);

void snapshot_hold(struct directory_snapshot *snapshot);
int64_t snapshot_version(const struct directory_snapshot *snapshot);
size_t snapshot_tenant_count(const struct directory_snapshot *snapshot);
const struct tenant *snapshot_tenant_at(const struct directory_snapshot *snapshot, size_t index);
/* A finished copy; known[i] is the new known_devices of tenant i. */
enum status snapshot_copy_with_known(const struct directory_snapshot *from, const int64_t *known,
                                     struct directory_snapshot **copy) MUST_CHECK;

/* PostgreSQL's clock less this host's monotonic one, in ms; the one thing that changes in a snapshot. Any thread. */
void snapshot_set_clock_offset(struct directory_snapshot *snapshot, int64_t offset_ms);

#endif
