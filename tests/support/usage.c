#include "support/test.h"

#include "support/usage.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t usage_rss_kib(const struct child *child) {
  char path[64], line[128] = "";
  snprintf(path, sizeof path, "/proc/%ld/statm", (long)child->pid);
  FILE *file = fopen(path, "r");
  if (file == NULL || fgets(line, sizeof line, file) == NULL) fail_msg("%s cannot be read", path);
  fclose(file);
  const char *resident = strchr(line, ' '); /* the second number: pages */
  if (resident == NULL) fail_msg("%s: %s", path, line);
  return strtoll(resident, NULL, 10) * sysconf(_SC_PAGESIZE) / 1024;
}

int usage_descriptors(const struct child *child) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/fd", (long)child->pid);
  DIR *folder = opendir(path);
  if (folder == NULL) fail_msg("%s cannot be read", path);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

bool usage_memory_is_real(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}
