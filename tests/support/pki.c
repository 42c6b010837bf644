#include "support/test.h"

#include "support/pki.h"
#include "support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run(const char *command) {
  if (system(command) != 0) fail_msg("this command fails: %s", command); // NOLINT(cert-env33-c): made by the test itself
}

bool pki_is_here(void) {
  return system("openssl version >/dev/null 2>&1") == 0; // NOLINT(cert-env33-c): a fixed command
}

struct certified pki_authority(const char *name) {
  struct certified made = {.cert = scratch_path("ca.crt"), .key = scratch_path("ca.key")};
  run(text_format("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s -out %s -subj '/CN=%s'"
                  " -days 2 2>/dev/null",
                  made.key, made.cert, name));
  return made;
}

struct certified pki_issue(const struct certified *authority, const char *common_name, const char *names, int days) {
  struct certified made = {.cert = scratch_path("crt"), .key = scratch_path("key")};
  const char *request = scratch_path("csr"), *extensions = scratch_path("ext");
  FILE *file = fopen(extensions, "we");
  assert_non_null(file);
  fprintf(file, "subjectAltName=%s\n", names);
  assert_int_equal(fclose(file), 0);
  run(text_format("openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s -out %s -subj '/CN=%s'"
                  " 2>/dev/null",
                  made.key, request, common_name));
  run(text_format("openssl x509 -req -in %s -CA %s -CAkey %s -CAcreateserial -out %s -days %d -extfile %s 2>/dev/null", request,
                  authority->cert, authority->key, made.cert, days, extensions));
  return made;
}

void pki_replace(const char *from, const char *to, bool move) {
  if (move)
    run(text_format("cp -p %s %s.new && mv %s.new %s", from, to, to, to));
  else
    run(text_format("cat %s >%s", from, to));
}
